"""Estimated Cortex-A72 profiles of the paper's four networks, kept as files so that no test has to quantise them.

Made by ``cimplan profile zoo:NAME --estimate cortex-a72`` with onnxruntime 1.28.0. What is computed from them is the
same on every machine.
"""

from __future__ import annotations

import gzip
from functools import lru_cache
from pathlib import Path

from cimplan.cost.profile_file import HostProfile, load

FOLDER = Path(__file__).parent / "profiles"
MODELS = ("resnet18", "resnet50", "mobilenet_v2", "yolov5n")


def unpack(folder: Path, *models: str) -> Path:
    """Write profiles into a folder, all four unless some are named."""
    for model in models or MODELS:
        (folder / f"{model}.json").write_bytes(gzip.decompress((FOLDER / f"{model}.json.gz").read_bytes()))
    return folder


def profile(model: str, folder: Path) -> HostProfile:
    return load(unpack(folder, model) / f"{model}.json")


@lru_cache(maxsize=1)
def reproduction():
    """Return the whole evaluation on the reference profiles, computed once per process."""
    import tempfile

    from cimplan.explore.klein2026 import reproduce
    from cimplan.explore.reproduction_hosts import find_hosts

    with tempfile.TemporaryDirectory() as name:
        hosts = find_hosts([str(unpack(Path(name)))], MODELS)
    return reproduce(hosts)
