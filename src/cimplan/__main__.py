"""Run the command line with ``python -m cimplan``."""

from cimplan.cli import main

main()
