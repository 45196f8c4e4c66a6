"""The dual-mode compiler against its oracles, and how long it takes.

    python benchmarks/dualmode.py                       # everything
    python benchmarks/dualmode.py --only allocation     # 1,000 random segments against CP-SAT
    python benchmarks/dualmode.py --only segmentation   # 500 random networks against exhaustive segmentation
    python benchmarks/dualmode.py --only models         # compile, check and verify the reference networks

Every answer must equal the oracle's, every plan must pass the independent checker and every program the verifier, or
the run fails. Times are of the processor (CP-SAT works on one thread), so that a busy machine does not distort them;
ratios are within this run. Compile times are wall times, as a user waits for them.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "dualmode"))

from allocation_oracle import best_allocation
from dual_networks import odd_cycle, random_chip, random_graph, random_readings, random_segment
from segmentation_oracle import best_cost

from cimplan import hardware
from cimplan.dualmode.compile import compile_graph, make_model
from cimplan.dualmode.network import matrix_operators
from cimplan.dualmode.options import CompileOptions, make_readings
from cimplan.dualmode.published import PublishedModel, PublishedSegment
from cimplan.dualmode.rates import Rates
from cimplan.dualmode.segmentation import Search, SearchRules
from cimplan.dualmode.windows import PieceNetwork, shapes_of
from cimplan.graph.read import graph_from_model
from cimplan.plan.dual_mode_check import checked
from cimplan.program.checked import checked_program
from cimplan.zoo import catalogue, reference
from common import describe, machine, table, write

CONVOLUTIONAL = ("resnet18", "mobilenet_v2", "vgg16")
TRANSFORMERS = ("bert_large?seq=64", "llama2_7b?seq=64", "opt_13b?seq=64")
LENGTHS = (32, 64, 128, 256, 512, 1024, 2048)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("allocation", "segmentation", "models"))
    parser.add_argument("--segments", type=int, default=1000)
    parser.add_argument("--networks", type=int, default=500)
    parser.add_argument("--output", type=Path, help="folder for the results as JSON")
    arguments = parser.parse_args()
    facts = machine()
    results: dict[str, Any] = {"machine": facts}
    if arguments.only in (None, "allocation"):
        results["allocation"] = allocation(arguments.segments)
    if arguments.only in (None, "segmentation"):
        results["segmentation"] = segmentation(arguments.networks)
    if arguments.only in (None, "models"):
        results["models"] = models()
    write(arguments.output, "dualmode", results, f"\n{describe(facts)}")
    return 0


def allocation(count: int) -> dict[str, Any]:
    """Allocate random segments with sharing, by closed form and by CP-SAT."""
    rng = Random(2026)
    odd = shared = 0
    cases = []
    for _ in range(count):
        chip = random_chip(rng, arrays=rng.randint(3, 96))
        readings = random_readings(rng, cost_model="published")
        parts, edges = random_segment(rng, chip.arrays)
        odd += odd_cycle(edges)
        shared += bool(edges)
        cases.append((chip, readings, parts, edges))
    started = time.process_time()
    found = []
    for chip, readings, parts, edges in cases:
        model = PublishedModel(Rates.of(chip, readings))
        curve = model.curve(PublishedSegment(tuple(parts), tuple(edges)), modes=chip.arrays + 1, duplicate=True)
        found.append(int(curve.min()))
    ours = time.process_time() - started
    started = time.process_time()
    expected = [best_allocation(parts, edges, chip, readings) for chip, readings, parts, edges in cases]
    theirs = time.process_time() - started
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one != other:
            raise SystemExit(f"segment {number}: {one} cycles, CP-SAT has {other}")
    result = {
        "segments": count,
        "with_sharing": shared,
        "with_odd_cycles": odd,
        "equal": count,
        "closed_form_s": ours,
        "cp_sat_s": theirs,
        "ratio": theirs / ours,
    }
    print(f"\nallocation: {count} of {count} equal to CP-SAT ({shared} with sharing, {odd} with odd cycles)")
    print(f"closed form {1e3 * ours / count:.3f} ms, CP-SAT {1e3 * theirs / count:.1f} ms: {theirs / ours:.0f} times")
    return result


def segmentation(count: int) -> dict[str, Any]:
    """Segment random networks by dynamic programme and exhaustively, under both cost models."""
    rng = Random(2027)
    done = short_worse = 0
    ours = theirs = 0.0
    while done < count:
        chip = random_chip(rng, arrays=rng.randint(2, 6))
        readings = random_readings(rng)
        operators = matrix_operators(random_graph(rng, rng.randint(1, 10)), chip, readings)
        shapes = shapes_of(operators, chip, readings)
        network = PieceNetwork.cut(operators, shapes, rng.randint(1, chip.arrays), chip)
        if network.pieces > 10:
            continue
        started = time.process_time()
        found = Search(network, make_model(Rates.of(chip, readings)), SearchRules()).run().cycles
        ours += time.process_time() - started
        started = time.process_time()
        expected = best_cost(network, make_model(Rates.of(chip, readings)))
        theirs += time.process_time() - started
        if found != expected:
            raise SystemExit(f"network {done}: {found} cycles, exhaustive segmentation has {expected}")
        short = Search(network, make_model(Rates.of(chip, readings)), SearchRules(short_form=True)).run().cycles
        short_worse += short > found
        done += 1
    print(f"\nsegmentation: {count} of {count} equal to exhaustive segmentation; {theirs / ours:.1f} times faster")
    print(f"the short form is worse on {short_worse}")
    return {"networks": count, "equal": count, "ratio": theirs / ours, "short_form_worse": short_worse}


def models() -> list[dict[str, Any]]:
    """Compile the reference networks, check the plans and verify the programs."""
    chip = hardware.load("dynaplasia").dual_mode
    if chip is None:
        raise SystemExit("dynaplasia is not a dual-mode chip")
    names = [*CONVOLUTIONAL, *TRANSFORMERS]
    names += [f"opt_6_7b?seq={n}&batch=8&phase={p}" for n in LENGTHS for p in ("prefill", "decode")]
    rows = []
    for name in names:
        parsed = reference.parse(name)
        graph = graph_from_model(catalogue.build(parsed.name, **parsed.params))
        for cost_model in ("published", "resident"):
            options = CompileOptions(make_readings(cost_model=cost_model))
            plan = compile_graph(graph, chip, options, hardware="dynaplasia")
            compiled = plan.compile_s
            started = time.process_time()
            plan = checked(plan, graph)
            checking = time.process_time() - started
            started = time.process_time()
            checked_program(plan)
            verifying = time.process_time() - started
            row = {
                "model": name,
                "cost_model": cost_model,
                "latency_cycles": plan.latency_cycles,
                "speedup": plan.speedup,
                "memory_share": plan.memory_share(),
                "segments": len(plan.segments),
                "compile_s": compiled,
                "check_s": checking,
                "program_s": verifying,
                "status": plan.status,
            }
            rows.append(row)
            print(row, flush=True)
    head = ("model", "cost model", "cycles", "speed-up", "segments", "compile s", "check s", "program s")
    print()
    print(
        table(
            head,
            [
                (
                    row["model"],
                    row["cost_model"],
                    row["latency_cycles"],
                    f"{row['speedup']:.3f}",
                    row["segments"],
                    f"{row['compile_s']:.2f}",
                    f"{row['check_s']:.2f}",
                    f"{row['program_s']:.2f}",
                )
                for row in rows
            ],
        )
    )
    return rows


if __name__ == "__main__":
    sys.exit(main())
