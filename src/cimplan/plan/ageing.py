"""Plan files of earlier versions, and of people who edit them: what a file claims is taken at what it proves.

A plan once said "optimal" on its method's word, of a curve too, and did not say which operators the user had placed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cimplan.cost.problem import HOST


def at_its_proof(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a plan file with the words that its proof allows.

    Parameters
    ----------
    data : mapping
        The content of a file, of any shape: what is not as expected stays for the validation to refuse.
    """
    found = dict(data)
    _claims(found, _verdict(found) == "verified")
    free = found.get("without_fixes")
    if isinstance(free, Mapping):
        found["without_fixes"] = dict(free)
        _claims(found["without_fixes"], _verdict(free) == "verified")
    points = found.get("curve")
    if isinstance(points, list):
        found["curve"] = [_point(point) for point in points]
    if "fixes" not in found:
        found["fixes"] = _fixes(found.get("operators"))
    return found


def _verdict(data: Mapping[str, Any]) -> object:
    proof = data.get("proof")
    return proof.get("verdict") if isinstance(proof, Mapping) else None


def _claims(data: dict[str, Any], verified: bool) -> None:
    if "status" in data:
        data.setdefault("solver_claims", data["status"])
    if data.get("status") == "optimal" and not verified and data.get("makespan_ns"):
        data["status"] = "feasible"


def _point(point: object) -> object:
    """Return a point of a curve; without a word of its method it is of a file without proofs for it."""
    if not isinstance(point, Mapping) or "solver_claims" in point or "status" not in point:
        return point
    status = "feasible" if point.get("makespan_ns") else point["status"]
    return {**point, "solver_claims": point["status"], "status": status}


def _fixes(operators: object) -> dict[str, Any]:
    """Return the operators that have a time at a place which they cannot choose, and their place."""
    fixes: dict[str, Any] = {}
    for operator in operators if isinstance(operators, list) else ():
        if not isinstance(operator, Mapping) or not isinstance(operator.get("options"), list):
            continue
        places = [option.get("place") for option in operator["options"] if isinstance(option, Mapping)]
        elsewhere = operator.get("cim_ns") is not None and all(place == HOST for place in places)
        at_home = operator.get("host_ns") is not None and HOST not in places
        if (elsewhere or at_home) and isinstance(operator.get("name"), str):
            fixes[operator["name"]] = operator.get("place")
    return fixes
