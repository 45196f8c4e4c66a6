"""Which operators run on the crossbars and when: exact methods and baselines."""

from cimplan.partition.methods import METHODS, Method, solve

__all__ = ["METHODS", "Method", "solve"]
