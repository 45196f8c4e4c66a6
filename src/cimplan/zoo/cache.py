"""Reference networks as files, built on first use and kept in the user's cache."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from cimplan.cache import cached_file
from cimplan.zoo.catalogue import describe
from cimplan.zoo.reference import ZooReference, parse


def cached(reference: ZooReference | str, *, form: str = "float") -> Path:
    """Return the file of a reference network, built now if it is not there yet.

    Parameters
    ----------
    reference : ZooReference or str
        Which network; text is parsed.
    form : {"float"}
        The form the zoo itself knows. Others are made from it elsewhere, through `cimplan.cache.cached_file` with a
        key that starts with `cache_key`.

    Returns
    -------
    Path
        An ONNX file that must not be changed.

    Raises
    ------
    InputError
        If the reference is wrong or the cache cannot be written.
    """
    if isinstance(reference, str):
        reference = parse(reference)
    entry = describe(reference.name)
    network = entry.network(reference.params)
    return cached_file(f"{cache_key(reference)} {form}", ".onnx", network.write)


def cache_key(reference: ZooReference) -> str:
    """Return a text that changes when the network or the way it is built changes."""
    return f"{reference} {_builder_hash()}"


@cache
def _builder_hash() -> str:
    """Hash the source of the builders and the versions that decide the bytes they write."""
    import numpy as np
    import onnx

    digest = hashlib.sha256(f"numpy {np.__version__} onnx {onnx.__version__}".encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]
