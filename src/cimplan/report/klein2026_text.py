"""What has to be said beside the numbers of a reproduction: where they differ from the paper's, and why."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from typing import Final

from cimplan.explore.klein2026 import TABLE_1, Reproduction
from cimplan.explore.published import HOST_TITLES, TABLE_ONE, TITLES
from cimplan.explore.reproduction_hosts import ReproductionHost
from cimplan.report.klein2026_tables import table_one

_HEAVY: Final = 0.15
"""Share of a network's host time from which an operator is worth a sentence."""


def how_made(result: Reproduction) -> list[str]:
    """Return what each kind of number is: measured, estimated, modelled, or printed in the paper."""
    said = [
        "Crossbar and transfer times are modelled by the published formulas; latencies follow from the exact schedule, "
        "which an independent checker recomputed for every instance.",
        "Sizes in Table I are counted from the published ILP of each network as ONNX Runtime optimises it here "
        f"(onnxruntime {version('onnxruntime')}), with random weights: int8 times do not depend on their values.",
    ]
    said += [_host_times(host) for host in result.hosts]
    return said


def _host_times(host: ReproductionHost) -> str:
    machine = next(iter(host.profiles.values())).machine
    beside = HOST_TITLES[host.published]
    if host.origin == "estimated":
        return (
            f"Host times of the {host.processor} are estimated from public facts about the core, not measured: expect "
            f"a factor of two either way. They stand beside the paper's {beside}."
        )
    threads = "one thread" if machine.threads == 1 else f"{machine.threads} threads"
    runtime = f", onnxruntime {machine.onnxruntime}" if machine.onnxruntime else ""
    return (
        f"Host times of the {host.processor} are measured ({threads}{runtime}). They stand beside the paper's {beside}."
    )


def differences(result: Reproduction) -> list[str]:
    """Return why our numbers are not the published ones; the first of each list is the largest effect."""
    said = list(_host_differences(result))
    if TABLE_1 in result.parts:
        said += _table_differences(result)
    busy = sorted(
        {
            f"{TITLES[model]} on {host.processor}: {note}"
            for host in result.hosts
            for model, profile in host.profiles.items()
            for note in profile.notes
            if "busy" in note
        }
    )
    return said + busy


def _host_differences(result: Reproduction) -> Iterator[str]:
    for host in result.hosts:
        parts = [f"{TITLES[model]} {profile.total_ns / 1e6:.4g} ms" for model, profile in host.profiles.items()]
        if host.origin == "estimated":
            yield (
                f"The {host.processor} is an estimate ({', '.join(parts)} alone). The paper prints no host times; its "
                "speed-ups suggest about 100 ms for ResNet-18 and 378 to 394 ms for YOLOv5n, so the estimate is slower "
                "on the one and faster on the other."
            )
        elif host.published == "x86" and "3900X" not in host.processor:
            yield (
                f"The host is {host.processor}, not the paper's Ryzen 9 3900X. Alone it takes {', '.join(parts)}. A "
                "faster host gains less from the same accelerator, and what it is slow at decides what is offloaded."
            )
        else:
            yield f"The host is {host.processor}: {', '.join(parts)} alone."
        yield from _heaviest(host)


def _heaviest(host: ReproductionHost) -> Iterator[str]:
    """Name an operator that takes so much of ResNet-18 that its place decides the speed-up."""
    profile = host.profiles.get("resnet18")
    if profile is None or host.origin != "measured":
        return
    operator = max(profile.graph_record.operators, key=lambda found: profile.times[found.name].host_ns)
    share = profile.times[operator.name].host_ns / profile.total_ns
    if share > _HEAVY and operator.work is not None:
        yield (
            f"On this host one operator of ResNet-18, {operator.name}, takes {share:.0%} of the time. With "
            f"{operator.work.mvms:,} MVMs it takes long on the crossbars, too, so the speed-up falls fast as the MVM "
            "latency grows."
        )


def _table_differences(result: Reproduction) -> Iterator[str]:
    rows = table_one(result)
    for row in rows:
        if not row["same_size"]:
            found = f"{row['operators']} operators, {row['decision_variables']} variables, {row['constraints']} rows"
            published = TABLE_ONE[row["model"]]
            yield (
                f"{TITLES[row['model']]} has {found} here, {published.operators} operators in the paper: this version "
                "of ONNX Runtime optimises it differently (from 1.29.0, three transposes of YOLOv5n's head merge)."
            )
    instances = sum(host["instances"] for row in rows for host in row["hosts"])
    optimal = sum(host["optimal"] for row in rows for host in row["hosts"])
    worst = max(host["most_solve_s"] for row in rows for host in row["hosts"])
    yield (
        f"The paper solved its ILP with Gurobi, at most 600 s an instance. The exact method here cuts the network into "
        f"blocks first: {optimal} of {instances} instances are proven optimal, the slowest in {worst:.2g} s. Times are "
        "of different machines; gaps and sizes are not."
    )
