"""What a plan says of its network, its profile and its hardware."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING

from cimplan.cost.precision import float_weights
from cimplan.plan.build import PlanContext
from cimplan.plan.document import ProfilePart

if TYPE_CHECKING:
    from cimplan.cost.build import CostedNetwork
    from cimplan.cost.profile_file import MachineRecord

_FAMILIES = {
    family: {family, *others}
    for family, others in {
        "x86": ("x64", "amd64", "i386", "i686"),
        "arm": ("aarch64", "arm64", "armv7l", "armv8l"),
        "riscv": ("riscv32", "riscv64"),
    }.items()
}
_SAYS_NOTHING = {"host", "cpu", "core", "cores", "processor", "machine", "the", "a", "an", "this", "one", "of", "any"}


def context_of(costed: CostedNetwork) -> PlanContext:
    """Return names, reasons, kinds of times and hashes of a costed network."""
    profile, operators = costed.profile, costed.operators
    machine = profile.machine
    accelerator = costed.hardware.accelerator
    remark = "" if accelerator is None else float_weights(costed.graph, accelerator)
    description = json.dumps(costed.hardware.to_description(), sort_keys=True, ensure_ascii=False)
    return PlanContext(
        model=profile.model.name or costed.graph.name,
        hardware=costed.hardware.name,
        op_types=tuple(operator.op_type for operator in operators),
        unsupported={operator.name: operator.reason_unsupported for operator in operators if operator.cim is None},
        file_nodes={operator.name: operator.file_nodes for operator in costed.graph.operators},
        host_times={operator.name: operator.host_kind for operator in operators},
        profile=ProfilePart(
            kind=profile.origin,
            machine=machine.cpu,
            threads=machine.threads,
            scale_factor=None if profile.measurement is None else profile.measurement.scale,
            values=profile.values,
            runtime=f"onnxruntime {machine.onnxruntime}" if machine.onnxruntime else "",
            date=machine.date,
            disturbed="" if profile.measurement is None else profile.measurement.disturbed,
            mismatch=mismatch(costed.hardware.host.name, machine),
            input_shapes={name: costed.graph.tensors[name].shape for name in costed.graph.inputs},
        ),
        network_io=costed.network_io,
        remarks=(remark,) if remark else (),
        reorders={
            name: others
            for name, nodes in costed.stands_for.items()
            if (others := tuple(node for node in nodes if node != name))
        },
        reorder_ns={operator.name: operator.reorder_ns for operator in operators if operator.reorder_ns},
        network_bytes={operator.name: operator.network_bytes for operator in operators if operator.network_bytes},
        transfer_reorder_ns=costed.reorder_ns,
        inputs={
            "model": profile.model.sha256,
            "profile": hashlib.sha256(profile.to_json().encode()).hexdigest(),
            "hardware": hashlib.sha256(description.encode()).hexdigest(),
        },
    )


def mismatch(host: str, machine: MachineRecord) -> str:
    """Return how the profiled processor differs from the host of a hardware file, by their names; empty if it fits.

    A family ("x86 host") fits every processor of it. Other names fit where the processor's name has all their words.
    """
    if not machine.cpu:
        return ""
    words = set(re.findall(r"[a-z0-9]+", host.lower())) - _SAYS_NOTHING
    found = set(re.findall(r"[a-z0-9]+", machine.cpu.lower()))
    architecture = set(re.findall(r"[a-z0-9]+", machine.architecture.lower()))
    for family, members in _FAMILIES.items():
        if architecture & members:
            found |= {family}
        if words & members:
            words = (words - members) | {family}
    if words <= found:
        return ""
    return f"the profile is of {machine.cpu}, the hardware file's host is {host}"
