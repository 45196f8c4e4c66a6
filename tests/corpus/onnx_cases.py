"""The models of the `onnx` package's backend tests: the files it ships and the node cases it generates.

Needs only onnx and numpy, so that another release's interpreter can run it as a script: ``python onnx_cases.py FOLDER``
writes every model of that release below FOLDER, and ``cases.json`` with where each came from.

A node case has its weights as inputs, since it tests an operator and not a network. So each is written a second time
with all inputs but the first as initialisers, of the values that the case is tested with: that is how networks carry
weights, and how the crossbars get something to do. Such a twin is named ``NAME+constants``.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

CONSTANTS = "+constants"


def data_folder() -> Path:
    """Return the folder of the installed package's model files."""
    return Path(onnx.__file__).parent / "backend" / "test" / "data"


def shipped() -> Iterator[tuple[str, onnx.ModelProto, list[onnx.TensorProto] | None]]:
    """Yield name, model and the values of its inputs, where they are tensors, for each model file of the package."""
    root = data_folder()
    for path in sorted(root.rglob("*.onnx")):
        name = path.parent.name if path.name == "model.onnx" else path.stem
        kind = path.relative_to(root).parts[0]
        yield f"file/{kind}/{name}", onnx.load(path), _recorded_inputs(path.parent / "test_data_set_0")


def _recorded_inputs(folder: Path) -> list[onnx.TensorProto] | None:
    files = sorted(folder.glob("input_*.pb"), key=lambda path: int(path.stem.removeprefix("input_")))
    values = []
    for path in files:
        tensor = onnx.TensorProto()
        try:
            tensor.ParseFromString(path.read_bytes())
            numpy_helper.to_array(tensor)
        except Exception:  # the file holds a sequence or a map, which is no constant
            return None
        values.append(tensor)
    return values or None


def generated() -> Iterator[tuple[str, onnx.ModelProto, list[onnx.TensorProto] | None]]:
    """Yield the same for each node case that the package makes."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    for case in sorted(cases, key=lambda case: case.name):
        if case.model is not None:
            yield f"node/{case.name}", case.model, _case_inputs(case.data_sets)


def _case_inputs(data_sets: object) -> list[onnx.TensorProto] | None:
    values = []
    for value in data_sets[0][0] if data_sets else []:  # type: ignore[index]
        if isinstance(value, onnx.TensorProto):
            values.append(value)
        elif isinstance(value, np.ndarray | np.generic):
            try:
                values.append(numpy_helper.from_array(np.asarray(value)))
            except Exception:  # a type that onnx has no tensor of
                return None
        else:
            return None
    return values or None


def with_constants(model: onnx.ModelProto, values: list[onnx.TensorProto] | None) -> onnx.ModelProto | None:
    """Return a copy whose inputs but the first are initialisers; None where the case has no such values."""
    taken = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in taken]
    if values is None or len(inputs) < 2 or len(values) != len(inputs):
        return None
    twin = onnx.ModelProto()
    twin.CopyFrom(model)
    # Older files may not have initialisers that are no inputs.
    twin.ir_version = max(twin.ir_version, 4)
    del twin.graph.input[:]
    twin.graph.input.append(inputs[0])
    for value, tensor in zip(inputs[1:], values[1:], strict=True):
        if not value.type.HasField("tensor_type"):
            return None
        constant = onnx.TensorProto()
        constant.CopyFrom(tensor)
        constant.name = value.name
        twin.graph.initializer.append(constant)
    return twin


def cases() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Yield every model of the installed release, each followed by its twin with constants."""
    for source in (shipped(), generated()):
        for name, model, values in source:
            yield name, model
            twin = with_constants(model, values)
            if twin is not None:
                yield name + CONSTANTS, twin


def main(folder: Path) -> None:
    """Write every model below a folder."""
    names = []
    for name, model in cases():
        path = folder / f"{name}.onnx"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(model.SerializeToString(deterministic=True))
        names.append(name)
    listing = {"onnx": onnx.__version__, "numpy": np.__version__, "names": names}
    (folder / "cases.json").write_text(json.dumps(listing), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
