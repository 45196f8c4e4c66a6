"""The messages of errors, as a set."""
