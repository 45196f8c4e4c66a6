"""The command line: a thin shell over the Python interface, one module a command."""

from __future__ import annotations

import sys
from typing import NoReturn

__all__ = ["main"]


def main(*, guarded: bool = True) -> NoReturn:
    """Run the command line.

    Parameters
    ----------
    guarded : bool
        Whether a command that does not stop by itself at a limit, or at a signal, is ended from outside together with
        this process. Not for a program that is more than this command line.
    """
    try:
        from cimplan.cli.app import main as run
    except KeyboardInterrupt:
        # Ctrl-C while the program starts: `console.note` may not be there yet.
        if sys.stderr is not None:
            sys.stderr.write("cimplan: interrupted\n")
        sys.exit(130)
    run(guarded=guarded)
