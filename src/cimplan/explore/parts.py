"""Which parts of a reproduction a user asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cimplan.errors import InputError, did_you_mean


def choose_parts(only: Iterable[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return the parts a user asks for, in the order of the known ones; all if none is named.

    Raises
    ------
    InputError
        If a part is not known.
    """
    wanted = tuple(only)
    for part in wanted:
        if part not in known:
            raise InputError(f"there is no part {part!r}", where="--only", fix=did_you_mean(part, known))
    return tuple(part for part in known if not wanted or part in wanted)
