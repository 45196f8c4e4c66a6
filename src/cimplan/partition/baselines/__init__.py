"""Strategies that others use, on the same costs and the same clock: what an exact answer is compared with.

Each module is one strategy with the signature of every method (`solve(problem, *, time_limit_s, seed, warm_start,
progress, curve)`). All of them keep to the budget, all are deterministic, none proves anything: their lower bound is
the search-free one of `cimplan.partition.bounds`.
"""
