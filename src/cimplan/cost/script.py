"""One Python file that measures a model where cimplan is not installed.

The file holds the very modules that measure here: those that need nothing but ONNX Runtime, numpy and the standard
library, one after another, without the imports by which they find each other. What it writes is a recording
(`cimplan.cost.recorded`), which reads as a host profile.
"""

from __future__ import annotations

import ast
import base64
import json
import zlib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from cimplan.cost.profile import TIME_BUDGET_S, input_sizes, model_record, package_version, weights_beside
from cimplan.errors import InputError
from cimplan.graph.values import described

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cimplan.graph.values import Values

MODULES: Final = (
    ("cimplan", "errors.py"),
    ("cimplan.graph", "runtime_words.py"),
    ("cimplan.graph", "wire.py"),
    ("cimplan.cost", "disturbance.py"),
    ("cimplan.cost", "session.py"),
    ("cimplan.cost", "runs.py"),
    ("cimplan.cost", "board.py"),
)
"""Modules of the file, in the order of their imports. They must run on Python 3.8."""


def script_for(
    path: Path,
    *,
    name: str = "",
    threads: int = 1,
    time_budget_s: float = TIME_BUDGET_S,
    seed: int = 0,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    values: Values | None = None,
) -> str:
    """Return the program that measures a model elsewhere.

    Parameters
    ----------
    path : Path
        The model; the program takes no other.
    name : str, optional
        What people call it; the file's name if left out.
    threads, time_budget_s, seed
        As for `cimplan.cost.profile.measure`; the first two can be changed where the program runs.
    shapes : mapping of str to tuple of int, optional
        Shapes of inputs whose dimensions the model leaves open; they become part of the program.
    values : mapping of str to array, optional
        Inputs that are not random but given; they become part of the program too.

    Raises
    ------
    InputError
        If the model cannot be read, or an input's shape is not known.
    """
    given = dict(shapes or {})
    sizes = input_sizes(path, threads, given)
    model = model_record(path)
    model = model.model_copy(update={"name": name or model.name})
    settings = {
        "cimplan_version": package_version("cimplan"),
        "file": path.name,
        "model": model.model_dump(),
        "shapes": {name: list(shape) for name, shape in given.items()},
        "sizes": sizes,
        "values": {name: _packed(name, value) for name, value in (values or {}).items()},
        "values_described": described(values or {}),
        "external": weights_beside(path),
        "threads": threads,
        "seconds": time_budget_s,
        "seed": seed,
    }
    # JSON within a Python string: names of inputs may hold anything.
    parts = [
        f'"""Measure {_plain(model.name)} with ONNX Runtime, for cimplan. Needs onnxruntime and numpy, nothing else.',
        "",
        "    python3 THIS_FILE MODEL.onnx -o host.json",
        "",
        f"Written by `cimplan profile --script`, cimplan {settings['cimplan_version']}. Then, on any machine:",
        "",
        "    cimplan partition MODEL.onnx --profile host.json",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        *_joined(),
        f"SETTINGS = json.loads({json.dumps(settings, ensure_ascii=True)!r})",
        "",
        'if __name__ == "__main__":',
        "    main(SETTINGS)",
        "",
    ]
    return "\n".join(parts)


def _packed(name: str, value: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return an array as plain values.

    Raises
    ------
    InputError
        If its type is one that numpy alone does not know.
    """
    if value.dtype.kind not in "biuf":
        raise InputError(
            f"a value of type {value.dtype} cannot be part of the program",
            where=f"input {name!r}",
            why="numpy alone does not know this type",
        )
    data = base64.b64encode(zlib.compress(np.ascontiguousarray(value).tobytes(), 9)).decode("ascii")
    return {"dtype": value.dtype.str, "shape": list(value.shape), "data": data}


def _plain(name: str) -> str:
    """Return a name that can stand in a docstring."""
    return "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name)


def _joined() -> Iterator[str]:
    """Yield the modules' sources without their imports of each other."""
    for package, name in MODULES:
        source = resources.files(package).joinpath(name).read_text(encoding="utf-8")
        lines = source.splitlines()
        drop: set[int] = set()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("cimplan", "__future__"):
                drop.update(range(node.lineno - 1, node.end_lineno or node.lineno))
        yield f"# --- {package}.{name.removesuffix('.py')} " + "-" * 40
        yield from (line for number, line in enumerate(lines) if number not in drop)
        yield ""
