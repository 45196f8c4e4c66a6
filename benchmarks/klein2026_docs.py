"""Bring tables and figures of docs/reproduce-klein2026.md up to date with this machine.

Run from the project's folder on a quiet machine: ``python benchmarks/klein2026_docs.py``. Text between
``<!-- begin NAME -->`` and ``<!-- end NAME -->`` is replaced, the rest of the page stays.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

from cimplan.explore.klein2026 import FASTEST_NS, Reproduction, models_needed, parse_parts, reproduce
from cimplan.explore.published import BUDGETS, HOST_TITLES, LATENCIES_NS, MODELS, SPEEDUPS_50NS, TITLES
from cimplan.explore.reproduction_hosts import DEFAULT_HOSTS, find_hosts
from cimplan.files import write_text
from cimplan.report.canvas import svg_text
from cimplan.report.klein2026_figures import figures
from cimplan.report.klein2026_tables import figure_three, published_operators, table_one
from cimplan.report.klein2026_text import differences

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reproduce-klein2026.md"
FIGURES = ROOT / "docs" / "figures"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", action="append", help="as for `cimplan reproduce klein2026`; repeatable")
    hosts = parser.parse_args().host or DEFAULT_HOSTS
    parts = parse_parts(())
    result = reproduce(find_hosts(hosts, models_needed(parts), say=print), parts, say=print)
    FIGURES.mkdir(exist_ok=True)
    for name, figure in figures(result).items():
        drawing = svg_text(figure)
        write_text(FIGURES / f"klein2026-{name}.svg", drawing)
        if name == "schedule-measured":
            # The picture at the top of the README.
            write_text(FIGURES / "overview.svg", drawing)
    text = PAGE.read_text(encoding="utf-8")
    for name, block in blocks(result).items():
        mark = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
        if not mark.search(text):
            raise SystemExit(f"{PAGE}: there is no block {name}")
        text = mark.sub(lambda match, block=block: f"{match[1]}{block}\n{match[2]}", text)
    write_text(PAGE, text)


def blocks(result: Reproduction) -> dict[str, str]:
    return {
        "machine": machine(result),
        "table1": table_1(result),
        "figure3": by_latency(result),
        "figure4": by_model(result),
        "figure5": operators(result),
        "differences": "\n".join(f"- {text}" for text in differences(result)),
        "bounds": bounds(result),
    }


def machine(result: Reproduction) -> str:
    lines = []
    for host in result.hosts:
        record = next(iter(host.profiles.values())).machine
        runtime = f", onnxruntime {record.onnxruntime}, {record.threads} thread" if record.onnxruntime else ""
        alone = ", ".join(f"{TITLES[model]} {profile.total_ns / 1e6:.1f}" for model, profile in host.profiles.items())
        lines.append(
            [f"`{host.key}`", f"{host.processor}{runtime}", f"**{host.origin}**", HOST_TITLES[host.published], alone]
        )
    tools = ", ".join(f"{name} {version(name)}" for name in ("cimplan", "onnxruntime", "onnx", "ortools"))
    solved = sum(item.status == "optimal" for item in result.instances)
    table = markdown(["host", "processor", "times", "beside the paper's", "host alone, ms"], lines)
    proven = f"{solved} of {len(result.instances)} instances proven optimal, each checked"
    return f"{table}\n\n{proven}, {result.elapsed_s:.0f} s in all; {tools}."


def table_1(result: Reproduction) -> str:
    head = ["network", "operators", "decision variables", "constraints"]
    for host in result.hosts:
        head += [f"mean s, `{host.key}`", "gap %"]
    rows = []
    for row in table_one(result):
        published = row["published"]
        line = [TITLES[row["model"]]]
        line += [f"{row[name]:,} ({published[name]:,})" for name in ("operators", "decision_variables", "constraints")]
        for one in row["hosts"]:
            line += [f"{one['solve_s']:.3f}", f"{100 * one['gap']:.2f}"]
        rows.append([*line, published["solve_text"], f"{100 * published['gap']:.2f}"])
    return markdown([*head, "printed mean s", "printed gap %"], rows)


def by_latency(result: Reproduction) -> str:
    printed = {(row["host"], row["mvm_latency_ns"], row["crossbars"]): row for row in figure_three(result)}
    rows = []
    for host in result.hosts:
        for latency in LATENCIES_NS:
            cells = [printed[host.key, latency, budget] for budget in BUDGETS]
            rows.append(
                [
                    f"`{host.key}`",
                    f"{latency:g} ns",
                    *(pair(cell["speedup"], cell["published_speedup"]) for cell in cells),
                ]
            )
    return markdown(["host", "MVM latency", *(f"{budget} crossbars" for budget in BUDGETS)], rows)


def by_model(result: Reproduction) -> str:
    rows = []
    for host in result.hosts:
        for model in MODELS:
            published = SPEEDUPS_50NS[host.published, model]
            cells = [pair(result.speedup(host.key, model, FASTEST_NS, budget), published[budget]) for budget in BUDGETS]
            rows.append([f"`{host.key}`", TITLES[model], *cells])
    return markdown(["host", "network", *(f"{budget} crossbars" for budget in BUDGETS)], rows)


def operators(result: Reproduction) -> str:
    rows = []
    for host in result.hosts:
        for latency in LATENCIES_NS:
            cells = []
            for budget in BUDGETS:
                item = result.instance(host.key, "yolov5n", latency, budget)
                if item is None:
                    continue
                stated = published_operators(host.published, item)
                mine = f"{item.operators_on_cim}, {item.makespan_ns / 1e6:.0f} ms"
                cells.append(mine if stated is None else f"{mine} ({stated[0]}{_ms(stated[1])})")
            rows.append([f"`{host.key}`", f"{latency:g} ns", *cells])
    return markdown(["host", "MVM latency", *(f"{budget} crossbars" for budget in BUDGETS)], rows)


def _ms(value: float | None) -> str:
    return "" if value is None else f", {value:g} ms"


def bounds(result: Reproduction) -> str:
    question = result.question
    if question is None:
        raise SystemExit("the open question was not computed")
    rows = [
        [
            f"{TITLES[network.model]} ({network.crossbars_of_everything})",
            str(row.crossbars),
            f"{100 * row.share_of_macs:.1f} %",
            f"{row.bound_if_even:.1f}" if row.bound_if_even < 1000 else "no bound",
            f"{row.published['arm']:g}",
            f"{row.least_unevenness['arm']:.1f}",
            f"{row.published['x86']:g}",
            f"{row.least_unevenness['x86']:.1f}",
        ]
        for network in question.networks
        for row in network.rows
    ]
    head = ["network (crossbars it needs)", "crossbars", "MACs that fit", "speed-up at most, if even"]
    return markdown([*head, "printed ARM", "k needed", "printed x86", "k needed"], rows)


def pair(ours: float | None, published: float | None) -> str:
    mine = "–" if ours is None else f"{ours:.1f}"
    return mine if published is None else f"{mine} ({published:.1f})"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
