"""What the compilers return: result types, JSON schema, and the independent checkers."""
