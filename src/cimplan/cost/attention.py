"""Fused attention of an optimised graph, split for planning where ONNX Runtime agrees that it says the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cimplan.cost.session import ORT_ERRORS, open_session
from cimplan.errors import InputError
from cimplan.graph.attention import split_attention
from cimplan.graph.skim import read_skeleton

if TYPE_CHECKING:
    from cimplan.cost.session import Feed

_TOLERANCE = 1e-3


def split_where_equal(saved: Path, feed: Feed) -> None:
    """Split the fused attentions of a saved graph, unless that changes what it computes.

    Parameters
    ----------
    saved : Path
        The graph; replaced by the split one.
    feed : dict of str to array
        Inputs to compare the two on.
    """
    if not split_attention(read_skeleton(saved)):
        return
    import onnx

    model = onnx.load(saved, load_external_data=False)
    split_attention(model)
    target = saved.with_name("split.onnx")
    onnx.save(model, target)
    try:
        expected, found = (open_session(path, threads=1, optimise=False).run(None, feed) for path in (saved, target))
    except InputError:
        return
    except ORT_ERRORS:
        return  # a mask that only the fused operator takes
    if all(_equal(one, other) for one, other in zip(expected, found, strict=True)):
        target.replace(saved)


def _equal(one: object, other: object) -> bool:
    first, second = np.asarray(one), np.asarray(other)
    if first.shape != second.shape or first.dtype.kind != "f":
        return first.shape == second.shape and bool(np.array_equal(first, second))
    largest = float(np.max(np.abs(first), initial=0.0))
    return bool(np.allclose(first, second, rtol=_TOLERANCE, atol=_TOLERANCE * max(largest, 1e-6), equal_nan=True))
