"""Models as a user names them: a path to an ONNX file, or ``zoo:NAME``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cimplan.cache import cached_file
from cimplan.errors import InputError
from cimplan.files import is_file, is_folder
from cimplan.zoo import describe
from cimplan.zoo.cache import cache_key, cached
from cimplan.zoo.reference import PREFIX, ZooReference, parse

if TYPE_CHECKING:
    import numpy as np

    from cimplan.graph.operators import OperatorGraph
    from cimplan.graph.quantise import Quantisation

FORMS = ("int8", "float")


@dataclass(frozen=True)
class Model:
    """A network to plan.

    Attributes
    ----------
    source : str
        As the user wrote it.
    path : Path
        The ONNX file; never changed.
    name : str
        Short name for people.
    weightless : bool
        True if the file has the shapes of the weights only: it can be compiled, not run.
    shapes : mapping of str to tuple of int
        Shapes the user gave for inputs with unknown dimensions.
    values : mapping of str to array
        Values the user gave for inputs on which shapes or times depend.
    """

    source: str
    path: Path
    name: str
    weightless: bool = False
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)

    @cached_property
    def graph(self) -> OperatorGraph:
        """The operators as they stand in the file, before any optimisation; weights are not read."""
        from cimplan.graph.read import read_graph

        return read_graph(self.path, shapes=self.shapes, values=self.values, split=True)


def load(
    source: str | Path,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    dims: Mapping[str, int] | None = None,
    values: Mapping[str, Any] | None = None,
) -> Model:
    """Find a model.

    Parameters
    ----------
    source : str or Path
        A path, or ``zoo:NAME`` with parameters as a query (``zoo:opt_13b?seq=64&phase=decode``). A reference network
        with weights is taken in its int8 form, ``&form=float`` asks for the float one. It is built on first use and
        kept in the user's cache.
    shapes : mapping of str to tuple of int, optional
        Shapes of inputs whose dimensions the file leaves open.
    dims : mapping of str to int, optional
        Sizes of dimensions by the names the file gives them.
    values : mapping of str to array, number or sequence, optional
        Values of inputs on which shapes or times depend; they are used when the model is measured. One number fills an
        input of known shape.

    Returns
    -------
    Model
        Nothing of it is read yet, unless dimensions or values have to be matched with its inputs.

    Raises
    ------
    InputError
        If there is no such file or reference network, or dimensions or values do not fit its inputs.
    """
    found = _found(source, dict(shapes or {}))
    if not dims and not values:
        return found
    return _with_inputs(found, dict(dims or {}), dict(values or {}))


def _with_inputs(model: Model, dims: Mapping[str, int], values: Mapping[str, Any]) -> Model:
    """Return a model with what named dimensions and values mean for its inputs."""
    from cimplan.graph.binding import shapes_of_dimensions
    from cimplan.graph.read import inputs_of
    from cimplan.graph.values import values_of

    inputs = inputs_of(model.path)
    shapes = shapes_of_dimensions(inputs, dims, model.shapes, model.source)
    arrays = values_of(inputs, values, shapes, model.source)
    return replace(model, shapes=shapes | {name: array.shape for name, array in arrays.items()}, values=arrays)


def _found(source: str | Path, shapes: Mapping[str, tuple[int, ...]]) -> Model:
    text = str(source)
    if not isinstance(source, Path) and text.startswith(PREFIX):
        return _from_zoo(text, shapes)
    path = Path(source)
    if not is_file(path):
        why = "it is a folder" if is_folder(path) else "there is no such file"
        fix = "Give an ONNX file, or a reference network such as zoo:resnet18 (see `cimplan zoo list`)"
        raise InputError("cannot read the model", where=text, why=why, fix=fix)
    if not _is_unicode(text):
        why = "ONNX Runtime and the plan need it as text"
        raise InputError("the file name is not Unicode", where=repr(text), why=why, fix="Rename the file")
    return Model(text, path, path.stem, shapes=shapes)


def quantize(
    model: str | Path,
    output: str | Path,
    *,
    calibration: str | Path | None = None,
    seed: int = 0,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    dims: Mapping[str, int] | None = None,
    values: Mapping[str, Any] | None = None,
) -> Quantisation:
    """Quantise a float model to 8 bits and check the result: unsigned activations, signed weights, QDQ form.

    Parameters
    ----------
    model : str or Path
        A path, or ``zoo:NAME``, which here means the float form.
    output : str or Path
        The ONNX file to write; it appears only once ONNX Runtime has loaded it, the weights of every operator that
        has an 8-bit form are 8-bit initializers, and its outputs have been compared with the float model's.
    calibration : str or Path, optional
        A folder of ``.npz`` files, one per sample with an array per input, or ``.npy`` files for a single input.
        Seeded random data if left out: fine for planning, useless for accuracy.
    seed : int
        Of the random data.
    shapes : mapping of str to tuple of int, optional
        Shapes of inputs the model leaves open; the written model leaves them open too.
    dims, values
        As for `load`. Values stand in every sample of random data.

    Returns
    -------
    Quantisation
        `outputs` with the signal-to-noise ratio of each in dB, `quantised`, `kept_float`, and `calibration`.

    Raises
    ------
    InputError
        If the model or the calibration data cannot be used, the output would overwrite the model, or a check fails.
    """
    from cimplan.files import check_writable
    from cimplan.graph.quantise import quantise

    source = str(model) if isinstance(model, str) else model
    if isinstance(source, str) and source.startswith(PREFIX) and "form=" not in source:
        source = f"{source}{'&' if '?' in source else '?'}form=float"
    found = load(source, shapes=shapes, dims=dims, values=values)
    check_writable(Path(output), found.path)
    return quantise(
        found.path,
        Path(output),
        calibration=None if calibration is None else Path(calibration),
        seed=seed,
        shapes=found.shapes,
        values=found.values,
    )


def _is_unicode(text: str) -> bool:
    """Tell whether a name is text; a file system may hold bytes that are none."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _from_zoo(text: str, shapes: Mapping[str, tuple[int, ...]]) -> Model:
    reference, form = _split_form(text)
    weightless = describe(reference.name).weightless
    name = str(reference) if form in ("", "int8") else f"{reference} ({form})"
    if weightless:
        if form:
            raise InputError("a weightless network has no form", where=text, fix="Drop form=")
        return Model(text, cached(reference), name, weightless=True, shapes=shapes)
    path = cached(reference) if form == "float" else _int8(reference)
    return Model(text, path, name, shapes=shapes)


def _split_form(text: str) -> tuple[ZooReference, str]:
    name, question, query = text.removeprefix(PREFIX).partition("?")
    parts = query.split("&") if question else []
    forms = [part.removeprefix("form=") for part in parts if part.startswith("form=")]
    rest = [part for part in parts if not part.startswith("form=")]
    if len(forms) > 1 or (forms and forms[0] not in FORMS):
        raise InputError("the form is not known", where=text, fix=f"form is one of: {', '.join(FORMS)}")
    return parse(name + ("?" + "&".join(rest) if rest or (question and not forms) else "")), "".join(forms)


def _int8(reference: ZooReference) -> Path:
    from cimplan.graph.quantise import REVISION, quantise

    key = f"{cache_key(reference)} int8 {REVISION} onnxruntime {version('onnxruntime')} cimplan {version('cimplan')}"

    def make(target: Path) -> None:
        quantise(cached(reference), target)

    return cached_file(key, ".onnx", make)
