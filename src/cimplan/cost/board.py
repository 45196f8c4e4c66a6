"""The command line of the program that measures without cimplan; see `cimplan.cost.script`."""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import sys
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cimplan.cost.disturbance import judge
from cimplan.cost.runs import packed_skeleton, record
from cimplan.cost.session import machine_values, prepare
from cimplan.errors import CimplanError, InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_READ_AT_ONCE = 1 << 20
_MOST_THREADS = 1024


def main(settings: Mapping[str, Any]) -> None:
    """Measure the model that the arguments name, write the recording, and end with an exit code.

    Parameters
    ----------
    settings : mapping
        What was fixed when the program was written: the model, its shapes, and what the options are by default.
    """
    parser = argparse.ArgumentParser(description="Measure a model with ONNX Runtime and write a host profile.")
    parser.add_argument("model", nargs="?", default=settings["file"], help="the ONNX file (%(default)s)")
    parser.add_argument("-o", "--output", default="host.json", help="profile to write (%(default)s)")
    parser.add_argument("--threads", type=int, default=settings["threads"], help="within an operator (%(default)s)")
    parser.add_argument("--seconds", type=float, default=settings["seconds"], help="rough time of all (%(default)s)")
    options = parser.parse_args()
    if not 1 <= options.threads <= _MOST_THREADS or not 0 < options.seconds < float("inf"):
        parser.error("--threads must be from 1 to 1024, and --seconds positive")
    try:
        values = measured(settings, Path(options.model), options.threads, options.seconds)
        output = Path(options.output)
        part = output.with_name(output.name + ".part")
        part.write_text(json.dumps(values, separators=(",", ":")) + "\n", encoding="utf-8")
        os.replace(part, output)  # noqa: PTH105 (as on Python 3.8)
    except CimplanError as error:
        print(error, file=sys.stderr)  # noqa: T201
        sys.exit(error.exit_code)
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)  # noqa: T201
        sys.exit(2)
    print(f"wrote {options.output}")  # noqa: T201


def measured(settings: Mapping[str, Any], path: Path, threads: int, seconds: float) -> dict[str, Any]:
    """Return the recording of a model, as it stands in its file.

    Raises
    ------
    InputError
        If it is not the model of the settings, or cannot be run.
    """
    if not path.is_file():
        raise InputError("there is no such file", where=str(path), fix="Give the path of the model")
    hashed = hashlib.sha256()
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(_READ_AT_ONCE), b""):
            hashed.update(block)
    wanted = settings["model"]
    if hashed.hexdigest() != wanted["sha256"]:
        raise InputError(
            "is not the model this program was written for",
            where=str(path),
            why=f"that is {wanted['name']} with SHA-256 {wanted['sha256']}",
            fix="Copy that file, or write the program again for this one",
        )
    shapes = {name: tuple(shape) for name, shape in settings["shapes"].items()}

    def tell(done: int, count: int) -> None:
        print(f"\rmeasured {done} of {count} runs", end="", file=sys.stderr, flush=True)  # noqa: T201

    with tempfile.TemporaryDirectory(prefix="cimplan-profile-") as name:
        folder = Path(name)
        prepared = prepare(
            path,
            folder,
            threads=threads,
            shapes=shapes,
            sizes=settings["sizes"],
            external=settings["external"],
            seed=settings["seed"],
            values={name: _unpacked(value) for name, value in settings["values"].items()},
        )
        found = record(prepared, folder, threads=threads, seed=settings["seed"], budget_s=seconds, progress=tell)
    print(file=sys.stderr)  # noqa: T201
    reason = judge(found.blocks, "plain", found.count).reason or judge(found.blocks, "profiled", found.count).reason
    if reason:
        print(f"the machine was busy: {reason}; measure again when it is quiet", file=sys.stderr)  # noqa: T201
    return {
        "schema_version": 1,
        "cimplan_version": settings["cimplan_version"],
        "origin": "measured",
        "model": dict(wanted),
        "machine": machine_values(threads),
        "shapes": {name: list(shape) for name, shape in shapes.items()},
        "values": dict(settings["values_described"]),
        "file_graph": packed_skeleton(path),
        "recording": found.to_values(),
    }


def _unpacked(packed: Mapping[str, Any]) -> NDArray[Any]:
    data = zlib.decompress(base64.b64decode(packed["data"]))
    return np.frombuffer(data, np.dtype(packed["dtype"])).reshape(packed["shape"])
