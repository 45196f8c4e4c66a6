"""What varies in a design space: lists of values, and ranges with units."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, PlainSerializer, PlainValidator, Tag

from cimplan import units
from cimplan.errors import InputError

Value: TypeAlias = str | int | float | bool | tuple[str, ...] | None
"""A value on an axis, as a hardware file would have it; None leaves the field out."""

VALUES_LIMIT = 100_000
"""Values on one axis."""


class Part(BaseModel):
    """Base of the parts of a space: immutable, nothing unknown, no silent conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)


def _number(value: Any) -> int | float | str:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("an end of a range is a number or a quantity such as 50ns")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("an end of a range must be finite")
    return value


End = Annotated[int | float | str, PlainValidator(_number)]


class Range(Part):
    """Equally spaced values between two ends, both included.

    Quantities carry a unit (``from: 50ns``); whole numbers stay whole.
    """

    first: End = Field(alias="from", description="First value.")
    last: End = Field(alias="to", description="Last value.")
    steps: Annotated[int, Field(ge=2, le=VALUES_LIMIT)] | None = Field(None, description="Number of values.")
    step: Annotated[int, Field(ge=1)] | None = Field(None, description="Distance of whole numbers.")
    scale: Literal["linear", "log"] = Field("linear", description="Spacing.")

    def values(self) -> tuple[Value, ...]:
        """Return the values, first to last, each once.

        Raises
        ------
        ValueError
            If the fields do not fit together.
        """
        first, unit = _split(self.first)
        last, other = _split(self.last)
        if unit != other:
            if not unit or not other:
                raise ValueError("one end has a unit and the other has none")
            try:
                last *= units.conversion(other, unit)
            except InputError as error:
                raise ValueError(f"the ends do not fit together: {error.what}") from error
        if last < first:
            raise ValueError("the range runs backwards")
        whole = isinstance(first, int) and isinstance(last, int)
        if self.step is not None:
            if not whole or self.steps is not None or self.scale != "linear":
                raise ValueError("step goes with whole numbers, without steps and scale")
            if (last - first) // self.step >= VALUES_LIMIT:
                raise ValueError(f"the range has more than {VALUES_LIMIT} values")
            return tuple(range(int(first), int(last) + 1, self.step))
        if self.steps is None:
            raise ValueError("a range needs steps, or step for whole numbers")
        share = [index / (self.steps - 1) for index in range(self.steps)]
        if self.scale == "log":
            if first <= 0:
                raise ValueError("a logarithmic range starts above 0")
            numbers = [math.exp(math.log(first) + part * math.log(last / first)) for part in share]
        else:
            numbers = [first + part * (last - first) for part in share]
        if whole:
            return tuple(dict.fromkeys((int(first), *(round(number) for number in numbers[1:-1]), int(last))))
        # The ends stay as they were written, six digits do for what is between them.
        texts = (f"{first:.15g}", *(f"{number:.6g}" for number in numbers[1:-1]), f"{last:.15g}")
        return tuple(dict.fromkeys(f"{text}{unit}" if unit else float(text) for text in texts))


def _split(value: int | float | str) -> tuple[float, str]:
    if not isinstance(value, str):
        return value, ""
    try:
        number, unit = units.split_quantity(value)
    except InputError as error:
        raise ValueError(error.what) from error
    if not unit:
        raise ValueError(f"{value!r} has no unit; write a plain number without quotes, or add the unit")
    return number, unit


def _value(value: Any) -> Value:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise ValueError("a value is text, a number, true, false, null, or a list of names")


def _to_tuple(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)) or not value:
        raise ValueError("an axis is a list of values, or a range with from, to and steps")
    if len(value) > VALUES_LIMIT:
        raise ValueError(f"an axis has at most {VALUES_LIMIT} values")
    return tuple(_value(item) for item in value)


def _to_list(values: tuple[Value, ...]) -> list[Any]:
    return [list(value) if isinstance(value, tuple) else value for value in values]


Axis = Annotated[
    Annotated[tuple[Any, ...], PlainValidator(_to_tuple), PlainSerializer(_to_list), Tag("list")]
    | Annotated[Range, Tag("range")],
    Discriminator(lambda value: "range" if isinstance(value, (dict, Range)) else "list"),
]


def values_of(axis: tuple[Value, ...] | Range) -> tuple[Value, ...]:
    """Return the values of an axis in order, each once.

    Raises
    ------
    ValueError
        If a range's fields do not fit together.
    """
    if isinstance(axis, Range):
        return axis.values()
    # True equals 1 for Python, and is another value here.
    return tuple({(type(value), value): value for value in axis}.values())
