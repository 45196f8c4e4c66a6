"""Design-space exploration and the reproduction of published results."""
