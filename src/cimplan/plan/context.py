"""What a plan says of its network, its profile and its hardware."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from cimplan.plan.build import PlanContext
from cimplan.plan.document import ProfilePart

if TYPE_CHECKING:
    from cimplan.cost.build import CostedNetwork


def context_of(costed: CostedNetwork) -> PlanContext:
    """Return names, reasons, kinds of times and hashes of a costed network."""
    profile, operators = costed.profile, costed.operators
    machine = profile.machine
    description = json.dumps(costed.hardware.to_description(), sort_keys=True, ensure_ascii=False)
    return PlanContext(
        model=profile.model.name or costed.graph.name,
        hardware=costed.hardware.name,
        op_types=tuple(operator.op_type for operator in operators),
        unsupported={operator.name: operator.reason_unsupported for operator in operators if operator.cim is None},
        host_times={operator.name: operator.host_kind for operator in operators},
        profile=ProfilePart(
            kind=profile.origin,
            machine=machine.cpu,
            threads=machine.threads,
            scale_factor=None if profile.measurement is None else profile.measurement.scale,
            values=profile.values,
            runtime=f"onnxruntime {machine.onnxruntime}" if machine.onnxruntime else "",
        ),
        inputs={
            "model": profile.model.sha256,
            "profile": hashlib.sha256(profile.to_json().encode()).hexdigest(),
            "hardware": hashlib.sha256(description.encode()).hexdigest(),
        },
    )
