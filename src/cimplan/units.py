"""Quantities with units: parsing what a user writes and printing what a user reads.

Bare numbers are refused wherever a unit could be mistaken; durations are nanoseconds, bandwidths gigabytes (10^9)
a second, sizes bytes inside the program.
"""

from __future__ import annotations

import math
import re

from cimplan.errors import InputError

_DURATIONS_NS = {"ps": 1e-3, "ns": 1.0, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9}
_SIZES_BYTES = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
_BANDWIDTHS_GBPS = {f"{unit}/s": factor / 1e9 for unit, factor in _SIZES_BYTES.items()} | {
    "bit/s": 1.25e-10,
    "Mbit/s": 1.25e-4,
    "Gbit/s": 0.125,
}
_FREQUENCIES_HZ = {"Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9}
_QUANTITY = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\s\d]*)\s*")


def _parse(text: str, factors: dict[str, float] | dict[str, int], kind: str, example: str) -> float:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise InputError(f"{text!r} is not a {kind}", fix=f"Write a number and a unit, such as {example}")
    number, unit = match.groups()
    if unit not in factors:
        why = "the unit is missing" if not unit else f"{unit!r} is not a unit of {kind}"
        raise InputError(
            f"{text!r} is not a {kind}", why=why, fix=f"Write for example {example}; units: {', '.join(factors)}"
        )
    value = float(number) * factors[unit]
    if not math.isfinite(value) or value < 0:
        raise InputError(f"{text!r} is not a {kind}", why="it must be finite and not negative")
    return value


def split_quantity(text: str) -> tuple[float, str]:
    """Split ``50ns`` into 50.0 and ``"ns"``; the unit may be empty.

    Raises
    ------
    InputError
        If the text does not start with a number.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise InputError(f"{text!r} is not a quantity", fix="Write a number and a unit, such as 50ns")
    return float(match[1]), match[2]


def conversion(unit: str, to: str) -> float:
    """Return the factor from one unit to another of the same kind.

    Raises
    ------
    InputError
        If there is no such pair of units.
    """
    for factors in (_DURATIONS_NS, _SIZES_BYTES, _BANDWIDTHS_GBPS, _FREQUENCIES_HZ):
        if unit in factors and to in factors:
            return factors[unit] / factors[to]
    raise InputError(f"{unit!r} and {to!r} are not units of the same kind")


def parse_duration_ns(text: str) -> float:
    """Parse a duration such as ``50ns``, ``1.4us`` or ``2 ms`` into nanoseconds.

    Raises
    ------
    InputError
        If the text is not a number with a known unit, or is negative.
    """
    return _parse(text, _DURATIONS_NS, "duration", "50ns or 1.4us")


def check_seconds(value: float | None, what: str) -> None:
    """Refuse a length of time that is not positive and finite; None stands for one that is left out.

    Parameters
    ----------
    value : float or None
        Seconds.
    what : str
        What they are, for the error ("time limit").

    Raises
    ------
    InputError
        If it is zero, negative, infinite or not a number.
    """
    if value is not None and not 0 < value < math.inf:
        raise InputError(
            f"a {what} of {value:g} s has no meaning",
            why="it must be positive and finite",
            fix="Give a positive number of seconds, or leave it out",
        )


def parse_bandwidth_gbps(text: str) -> float:
    """Parse a bandwidth such as ``10.24GB/s`` into gigabytes (10^9 bytes) a second.

    One gigabyte a second is also one byte a nanosecond.

    Raises
    ------
    InputError
        If the text is not a number with a known unit, or is negative.
    """
    return _parse(text, _BANDWIDTHS_GBPS, "bandwidth", "10.24GB/s")


def parse_size_bytes(text: str) -> int:
    """Parse a size such as ``64KiB`` into bytes.

    Raises
    ------
    InputError
        If the text is not a whole number of bytes with a known unit, or is negative.
    """
    value = _parse(text, _SIZES_BYTES, "size", "64KiB")
    if value != int(value):
        raise InputError(
            f"{text!r} is not a size",
            why="it is not a whole number of bytes",
            fix="Write a whole number of bytes, such as 1kB",
        )
    return int(value)


def parse_frequency_hz(text: str) -> float:
    """Parse a frequency such as ``250MHz`` into hertz.

    Raises
    ------
    InputError
        If the text is not a number with a known unit, or is negative.
    """
    return _parse(text, _FREQUENCIES_HZ, "frequency", "250MHz")


def _scaled(value: float, steps: list[tuple[float, str]]) -> str:
    for factor, unit in steps:
        if abs(value) >= factor:
            return f"{value / factor:.4g} {unit}"
    factor, unit = steps[-1]
    return f"{value / factor:.4g} {unit}"


def format_duration(value_ns: float) -> str:
    """Return a duration with the unit a person would choose, four significant digits."""
    return _scaled(value_ns, [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")])


def format_size(value_bytes: float) -> str:
    """Return a size in decimal units, four significant digits."""
    return _scaled(value_bytes, [(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")])


def format_bandwidth(value_gbps: float) -> str:
    """Return a bandwidth, four significant digits."""
    return _scaled(value_gbps * 1e9, [(1e9, "GB/s"), (1e6, "MB/s"), (1.0, "B/s")])
