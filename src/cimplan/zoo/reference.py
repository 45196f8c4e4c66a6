"""Names of reference networks as a user writes them: ``opt_13b?seq=64&batch=8&phase=decode``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cimplan.errors import InputError
from cimplan.zoo.catalogue import Value, describe

PREFIX = "zoo:"


@dataclass(frozen=True)
class ZooReference:
    """A reference network and the parameters it is built with.

    Attributes
    ----------
    name : str
        Of the network.
    params : mapping of str to int, str or bool
        Every parameter the network accepts, those the user left out with their defaults.
    """

    name: str
    params: Mapping[str, Value]

    def __str__(self) -> str:
        """Return the canonical form: parameters sorted, those with their default value left out."""
        defaults = {parameter.name: parameter.default for parameter in describe(self.name).params}
        query = "&".join(
            f"{key}={_text(value)}" for key, value in sorted(self.params.items()) if value != defaults[key]
        )
        return f"{self.name}?{query}" if query else self.name

    def __hash__(self) -> int:
        """Equal references have equal canonical forms."""
        return hash(str(self))


def parse(text: str) -> ZooReference:
    """Parse a reference, with or without the prefix ``zoo:``.

    Parameters
    ----------
    text : str
        A name, or a name and a query of parameters: ``resnet18``, ``bert_large?seq=128&batch=4``.

    Returns
    -------
    ZooReference
        With checked values and all defaults filled in.

    Raises
    ------
    InputError
        If the network or a parameter is unknown, a parameter is given twice, or a value is out of its bounds.
    """
    name, _, query = text.removeprefix(PREFIX).partition("?")
    entry = describe(name)
    given: dict[str, str] = {}
    for part in query.split("&") if query else ():
        key, equals, value = part.partition("=")
        if not equals:
            raise InputError(
                f"{part!r} is not a parameter", where=text, fix=f"Write name=value, as in {entry.example!r}"
            )
        if key in given:
            raise InputError(f"{key!r} is given twice", where=text, fix="Keep one of the two")
        given[key] = value
    return ZooReference(name, entry.check({key: entry.param(key).parse(value) for key, value in given.items()}))


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
