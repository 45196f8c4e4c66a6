"""The schema of a chip and its host, and validated presets."""
