"""Reference networks as files, built on first use and kept in the user's cache."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path

from cimplan.cache import cached_file
from cimplan.errors import InputError
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
    if form != "float":
        raise InputError(f"the zoo has no form {form!r} of a network", fix="Its only form is float")
    entry, params = describe(reference.name), reference.params
    return cached_file(f"{cache_key(reference)} {form}", ".onnx", lambda path: entry.network(params).write(path))


def cache_key(reference: ZooReference) -> str:
    """Return a text that changes when the network or the way it is built changes."""
    return f"{reference} {_builder_hash()}"


@cache
def _builder_hash() -> str:
    """Hash the source of the builders and the versions that decide the bytes they write."""
    digest = hashlib.sha256(f"numpy {version('numpy')} onnx {version('onnx')}".encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]
