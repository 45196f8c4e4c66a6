"""The Python interface: what `import cimplan` offers, and what the command line is a thin shell over."""
