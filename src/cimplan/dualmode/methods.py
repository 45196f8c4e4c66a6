"""Dual-mode compilation by several methods, all on the same costs.

Every method is a set of rules for one search, so no method is judged by another objective than the others, and each is
given the split size that suits it best.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from cimplan.dualmode.segmentation import SearchRules


class Method(NamedTuple):
    """A way to compile: the rules of its search and what it stands for."""

    rules: SearchRules
    description: str


METHODS: Final[dict[str, Method]] = {
    "exact": Method(SearchRules(), "dual-mode arrays, exact segmentation and allocation"),
    "short_form": Method(
        SearchRules(short_form=True),
        "dual-mode arrays, a dynamic programme that keeps one plan for each cut (not exact)",
    ),
    "all_compute": Method(
        SearchRules(memory=False), "all arrays compute, with duplication and exact segmentation (CIM-MLC-like)"
    ),
    "greedy": Method(SearchRules(cuts="greedy"), "dual-mode arrays, segments filled with as many pieces as fit"),
    "pipeline": Method(
        SearchRules(memory=False, cuts="greedy"),
        "all arrays compute, segments filled with as many pieces as fit, then duplication (PUMA-like)",
    ),
    "layer_by_layer": Method(
        SearchRules(memory=False, duplicate=False, cuts="per_operator"),
        "all arrays compute, one operator at a time, no duplication (OCC-like)",
    ),
}
"""Registry of methods by name."""

EXACT: Final = "exact"
"""The method that searches all plans; its bound holds for every method."""

BASELINE: Final = "all_compute"
"""The method that a plan's speed-up is measured against."""
