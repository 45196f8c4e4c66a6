"""The command line: a thin shell over the Python interface, one module a command."""

from __future__ import annotations

import sys
from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line."""
    try:
        from cimplan.cli.app import main as run
    except KeyboardInterrupt:
        # Ctrl-C while the program starts: there is nothing to say or to save.
        sys.exit(130)
    run()
