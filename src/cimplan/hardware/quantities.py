"""Field types of a description that carry a unit in the file and a plain number inside the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from cimplan import units
from cimplan.errors import InputError

# Far beyond all hardware, and so near to each other that no product with counts leaves the numbers of a machine.
_DURATIONS_NS = (1e-6, 1e15)
LEAST_RATE = 1e-9
MOST_RATE = 1e15
_MOST_BYTES = 2**60

# Shortest text that reads back as the same number; repr does that for a float.
_PLAIN_LIMIT = 1e15


def _number_text(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < _PLAIN_LIMIT else repr(value)


def _reader(
    parse: Callable[[str], float], kind: str, example: str, *, within: tuple[float, float], unit: str
) -> Callable[[Any], float]:
    least, most = within

    def read(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise PydanticCustomError(
                "quantity", "a {kind} is a number with a unit", {"kind": kind, "example": example}
            )
        if not isinstance(value, str):
            raise PydanticCustomError(
                "quantity", "the unit of this {kind} is missing", {"kind": kind, "example": example}
            )
        try:
            number = parse(value)
        except InputError as error:
            why = f": {error.why}" if error.why else ""
            raise PydanticCustomError(
                "quantity", "{what}", {"what": f"{error.what}{why}", "kind": kind, "example": example}
            ) from error
        if least > 0 and number <= 0:
            raise PydanticCustomError(
                "quantity", "a {kind} of zero has no meaning here", {"kind": kind, "example": example}
            )
        if not least <= number <= most:
            ends = f"{least:g}{unit} and {most:g}{unit}"
            raise PydanticCustomError(
                "quantity", "a {kind} here is between {ends}", {"kind": kind, "ends": ends, "example": example}
            )
        return number

    return read


def _quantity(unit: str, example: str) -> tuple[PlainSerializer, WithJsonSchema]:
    return (
        PlainSerializer(lambda value: f"{_number_text(value)}{unit}", return_type=str),
        WithJsonSchema({"type": "string", "examples": [example]}),
    )


DurationNs = Annotated[
    float,
    BeforeValidator(_reader(units.parse_duration_ns, "duration", "50ns", within=_DURATIONS_NS, unit="ns")),
    *_quantity("ns", "50ns"),
]
"""Nanoseconds inside, ``50ns`` or ``1.4us`` in the file; not zero."""

BandwidthGbps = Annotated[
    float,
    BeforeValidator(
        _reader(units.parse_bandwidth_gbps, "bandwidth", "20.48GB/s", within=(LEAST_RATE, MOST_RATE), unit="GB/s")
    ),
    *_quantity("GB/s", "20.48GB/s"),
]
"""Gigabytes (10^9) a second inside, which is bytes a nanosecond; ``20.48GB/s`` in the file; not zero."""

SizeBytes = Annotated[
    int,
    BeforeValidator(_reader(units.parse_size_bytes, "size", "80kB", within=(0, _MOST_BYTES), unit="B")),
    *_quantity("B", "80kB"),
]
"""Bytes inside, ``80kB`` or ``64KiB`` in the file; may be zero."""

FrequencyHz = Annotated[
    float,
    BeforeValidator(_reader(units.parse_frequency_hz, "frequency", "250MHz", within=(1.0, 1e15), unit="Hz")),
    *_quantity("Hz", "250MHz"),
]
"""Hertz inside, ``250MHz`` in the file; not zero."""
