"""The reference networks: what each is, where it comes from, and what may be chosen about it.

This module is light; the builders, and ONNX with them, load when a network is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from cimplan.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import onnx

    from cimplan.zoo.network import Network

Value: TypeAlias = int | str | bool


@dataclass(frozen=True)
class Parameter:
    """Something one may choose about a network.

    Attributes
    ----------
    name, description : str
        Name in a reference, and what it means.
    default : int, str or bool
        Its type is the parameter's type.
    lowest, highest : int
        Bounds of an integer, both allowed.
    choices : tuple of str
        Values of a text parameter.
    why : str
        Why other values are refused, where that is not plain.
    """

    name: str
    description: str
    default: Value
    lowest: int = 0
    highest: int = 0
    choices: tuple[str, ...] = ()
    why: str = ""

    @property
    def values(self) -> str:
        """The accepted values, in words."""
        if isinstance(self.default, bool):
            return "true or false"
        if isinstance(self.default, int):
            return f"a whole number from {self.lowest:,} to {self.highest:,}"
        return " or ".join(self.choices)

    def parse(self, text: str) -> Value:
        """Turn text into a value of the parameter's type, and check it.

        Raises
        ------
        InputError
            If it is not a value of the parameter.
        """
        value: Value = text
        if isinstance(self.default, bool) and text.lower() in ("true", "false"):
            value = text.lower() == "true"
        # Unicode digits and underscores, which int() takes, would make two spellings of one reference.
        elif isinstance(self.default, int) and text.isascii() and text.isdecimal() and len(text) < 20:
            value = int(text)
        return self.check(value)

    def check(self, value: object) -> Value:
        """Return the value if it is one of the parameter's.

        Raises
        ------
        InputError
            If it is not.
        """
        # A bool is an int in Python, and batch=True a mistake.
        if type(value) is type(self.default):
            if isinstance(value, bool):
                return value
            if isinstance(value, int) and self.lowest <= value <= self.highest:
                return value
            if isinstance(value, str) and value in self.choices:
                return value
        raise InputError(f"{self.name}={value} is not possible", why=self.why, fix=f"{self.name} is {self.values}")


@dataclass(frozen=True)
class ZooEntry:
    """The facts about a reference network.

    Attributes
    ----------
    name, description : str
        Its name in a reference, and one line about it.
    source : str
        The paper that describes it.
    input_name : str
        Name of its main input.
    input_shape : tuple of int or str
        Shape of that input; a text stands for the parameter of that name (one token instead of ``seq`` in decode).
    weights : int
        Parameters of the network with batch normalisation folded into weights and biases; weights that are used
        twice count once.
    weightless : bool
        True if the graph has the shapes of the weights and no data: it can be planned and not run.
    params : tuple of Parameter
        What may be chosen.
    example : str
        A reference with parameters.
    """

    name: str
    description: str
    source: str
    input_name: str
    input_shape: tuple[int | str, ...]
    weights: int
    weightless: bool
    params: tuple[Parameter, ...]
    example: str
    network: Callable[[Mapping[str, Value]], Network]

    def param(self, name: str) -> Parameter:
        """Return a parameter by its name.

        Raises
        ------
        InputError
            If the network has none of this name.
        """
        for parameter in self.params:
            if parameter.name == name:
                return parameter
        raise InputError(
            f"{self.name} has no parameter {name!r}",
            fix=did_you_mean(name, [parameter.name for parameter in self.params]),
        )

    def check(self, params: Mapping[str, object]) -> dict[str, Value]:
        """Return checked values of all parameters, sorted by name, defaults filled in.

        Raises
        ------
        InputError
            If a parameter is unknown or its value is out of bounds.
        """
        checked = {name: self.param(name).check(value) for name, value in params.items()}
        return {
            parameter.name: checked.get(parameter.name, parameter.default)
            for parameter in sorted(self.params, key=lambda parameter: parameter.name)
        }


_BATCH = Parameter("batch", "inputs processed together in one inference", 1, lowest=1, highest=65_536)
_SEED = Parameter("seed", "of the random weights", 0, lowest=0, highest=2**32 - 1)


def _convolutional(name: str, description: str, source: str, size: int, weights: int) -> ZooEntry:
    def network(params: Mapping[str, Value]) -> Network:
        from cimplan.zoo import classifiers, yolo

        batch, seed = cast("int", params["batch"]), cast("int", params["seed"])
        if name == "yolov5n":
            return yolo.yolov5n(batch=batch, seed=seed)
        if name == "mobilenet_v2":
            return classifiers.mobilenet_v2(batch=batch, seed=seed)
        if name == "vgg16":
            return classifiers.vgg16(batch=batch, seed=seed)
        return classifiers.resnet(name, batch=batch, seed=seed)

    return ZooEntry(
        name=name,
        description=description,
        source=source,
        input_name="image",
        input_shape=("batch", 3, size, size),
        weights=weights,
        weightless=False,
        params=(_BATCH, _SEED),
        example=f"{name}?batch=4",
        network=network,
    )


def _transformer(
    name: str, description: str, source: str, weights: int, *, layers: int, causal: bool = True
) -> ZooEntry:
    def network(params: Mapping[str, Value]) -> Network:
        from cimplan.zoo import transformer

        return transformer.transformer(
            name,
            transformer.ARCHITECTURES[name],
            seq=cast("int", params["seq"]),
            batch=cast("int", params["batch"]),
            decode=params["phase"] == "decode",
            layers=cast("int", params["layers"]),
            lm_head=bool(params.get("lm_head", False)),
        )

    params = [
        _BATCH,
        Parameter(
            "seq", "tokens of a sequence; in decode, tokens already in the cache", 64, lowest=1, highest=1_000_000
        ),
        Parameter("layers", "layers, all of them by default", layers, lowest=1, highest=1000),
    ]
    if causal:
        phases = "prefill (the prompt) or decode (one new token per sequence, with a cache of keys and values)"
        params.append(Parameter("phase", phases, "prefill", choices=("prefill", "decode")))
        params.append(Parameter("lm_head", "whether the scores of all tokens are computed at the end", True))
    else:
        why = f"{name} is an encoder, which reads whole sequences and decodes nothing"
        params.append(Parameter("phase", "an encoder has only prefill", "prefill", choices=("prefill",), why=why))
    return ZooEntry(
        name=name,
        description=description,
        source=source,
        input_name="input_ids",
        input_shape=("batch", "seq"),
        weights=weights,
        weightless=True,
        params=tuple(params),
        example=f"{name}?batch=8&phase=decode&seq=128" if causal else f"{name}?batch=8&seq=128",
        network=network,
    )


_HE = "He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition, CVPR 2016, arXiv 1512.03385"
_OPT = "Zhang et al.: OPT: Open Pre-trained Transformer Language Models, 2022, arXiv 2205.01068"

_ENTRIES = (
    _convolutional("resnet18", "residual image classifier, 18 layers", _HE, 224, 11_684_712),
    _convolutional("resnet34", "residual image classifier, 34 layers", _HE, 224, 21_789_160),
    _convolutional("resnet50", "residual image classifier with bottlenecks, 50 layers", _HE, 224, 25_530_472),
    _convolutional("resnet101", "residual image classifier with bottlenecks, 101 layers", _HE, 224, 44_496_488),
    _convolutional(
        "mobilenet_v2",
        "image classifier of inverted residuals with depthwise convolutions",
        "Sandler, Howard, Zhu, Zhmoginov, Chen: MobileNetV2, CVPR 2018, arXiv 1801.04381",
        224,
        3_487_816,
    ),
    _convolutional(
        "vgg16",
        "image classifier of plain convolutions, 16 layers",
        "Simonyan, Zisserman: Very Deep Convolutional Networks for Large-Scale Image Recognition, ICLR 2015, "
        "arXiv 1409.1556",
        224,
        138_357_544,
    ),
    _convolutional(
        "yolov5n",
        "object detector with anchors, width 0.25, depth 0.33",
        "Jocher et al.: YOLOv5 by Ultralytics, 2020, doi 10.5281/zenodo.3908559; architecture as facts",
        640,
        1_867_405,
    ),
    _transformer(
        "bert_large",
        "text encoder, 24 layers of 1024 features",
        "Devlin, Chang, Lee, Toutanova: BERT, NAACL 2019, arXiv 1810.04805",
        335_141_888,
        layers=24,
        causal=False,
    ),
    _transformer(
        "llama2_7b",
        "language model, 32 layers of 4096 features, rotary positions, gated SiLU",
        "Touvron et al.: Llama 2: Open Foundation and Fine-Tuned Chat Models, 2023, arXiv 2307.09288",
        6_738_415_616,
        layers=32,
    ),
    _transformer("opt_6_7b", "language model, 32 layers of 4096 features", _OPT, 6_658_473_984, layers=32),
    _transformer("opt_13b", "language model, 40 layers of 5120 features", _OPT, 12_853_473_280, layers=40),
)

ZOO: Mapping[str, ZooEntry] = {entry.name: entry for entry in _ENTRIES}


def names() -> tuple[str, ...]:
    """Return the names of all reference networks, in the order of the catalogue."""
    return tuple(ZOO)


def describe(name: str) -> ZooEntry:
    """Return the facts about a reference network.

    Raises
    ------
    InputError
        If there is none of this name; with the nearest name.
    """
    if name not in ZOO:
        raise InputError(f"there is no reference network {name!r}", fix=did_you_mean(name, ZOO))
    return ZOO[name]


def build(name: str, **params: Value) -> onnx.ModelProto:
    """Build a reference network in memory.

    Parameters
    ----------
    name : str
        One of `names`.
    **params : int, str or bool
        Those its entry accepts; the others take their defaults.

    Returns
    -------
    onnx.ModelProto
        In float32. Convolutional networks have random weights (batch normalisation folded); transformers are
        weightless: their weights are external tensors without a file.

    Raises
    ------
    InputError
        If the name or a parameter is unknown or a value is out of bounds.
    """
    entry = describe(name)
    return entry.network(entry.check(params)).build()


def write(name: str, path: Path, **params: Value) -> None:
    """Build a reference network straight into a file, in little memory whatever its size.

    Parameters
    ----------
    name : str
        One of `names`.
    path : Path
        The ONNX file; written whole or not at all.
    **params : int, str or bool
        As for `build`.

    Raises
    ------
    InputError
        If the name or a parameter is unknown, a value is out of bounds, or the file cannot be written.
    """
    from cimplan.files import replacing

    entry = describe(name)
    network = entry.network(entry.check(params))
    with replacing(path) as temporary:
        network.write(temporary)
