"""The command line: a thin shell over the Python interface, one module a command."""

from cimplan.cli.app import main

__all__ = ["main"]
