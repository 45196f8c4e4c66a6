"""Files of a reproduction: tables as CSV, figures as SVG and PNG, everything as JSON, and one page to look at."""

from __future__ import annotations

import base64
import math
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from cimplan.errors import InputError
from cimplan.explore.klein2026 import FIGURE_3, FIGURE_4, FIGURE_5, OPEN_QUESTION, TABLE_1, Reproduction
from cimplan.explore.open_question import FITTED_MODEL
from cimplan.explore.published import HOST_TITLES, SOURCE, SPEEDUPS_50NS, TITLES
from cimplan.files import write_json, write_text
from cimplan.report.canvas import require_matplotlib, save, svg_text
from cimplan.report.klein2026_figures import figures
from cimplan.report.klein2026_tables import csv_tables, question_rows, table_one, to_json
from cimplan.report.klein2026_text import differences, how_made
from cimplan.report.pages import render, require_jinja2

PAGE: Final = "index.html"
_TEMPLATE: Final = "klein2026.html.j2"

_CAPTIONS: Final = {
    "figure3": (
        "Figure 3",
        "ResNet-18 over crossbar budgets and MVM latencies. Left: ours. Right: printed in the paper.",
    ),
    "figure4": (
        "Figure 4",
        "Four networks at 50 ns per MVM. Bars: ours. Black lines: printed in the paper. Logarithmic axis.",
    ),
    "budget-curves": ("Every budget", "The optimum of every crossbar budget at 50 ns per MVM, from one run a curve."),
    "figure5-latency": (
        "Figure 5, latency",
        "What the latency of YOLOv5n goes to. Each moment counts once, so the parts of a bar add up to its latency.",
    ),
    "figure5-operators": (
        "Figure 5, operators",
        "Operators of YOLOv5n on the crossbars. Black lines: stated in the paper; where it names no budget, at the "
        "largest.",
    ),
    "open-question": (
        "Published and possible",
        "Bars: no plan can beat them under equation (1) on a host whose time goes with multiply-accumulates. Black "
        "lines: the host that fits the printed ARM row best, solved exactly.",
    ),
}
_SCHEDULE_CAPTION: Final = (
    "One lane per unit; two shades tell neighbours apart. Lanes of the crossbars and the bus hold what runs at once."
)


def require_extras() -> None:
    """Refuse to start where a package for figures or pages is missing, before anything is computed.

    Raises
    ------
    InputError
        With the command that installs it.
    """
    require_matplotlib()
    require_jinja2()


def prepare_folder(folder: Path) -> None:
    """Make the output folder, so that a long computation does not end without a place for its files.

    Raises
    ------
    InputError
        If it cannot be made or is a file.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            "cannot make the output folder", where=str(folder), why=str(error.strerror), fix="Choose another with -o"
        ) from error


def write_report(result: Reproduction, folder: Path) -> list[Path]:
    """Write all files of a reproduction, each whole or not at all.

    Parameters
    ----------
    result : Reproduction
        What to write.
    folder : Path
        Must exist (`prepare_folder`); files of the same names are replaced.

    Returns
    -------
    list of Path
        What was written, the page first.

    Raises
    ------
    InputError
        If matplotlib or jinja2 is missing, or the folder cannot be written.
    """
    require_extras()
    written: list[Path] = []
    for name, text in csv_tables(result).items():
        write_text(folder / name, text)
        written.append(folder / name)
    write_json(folder / "results.json", to_json(result))
    written.append(folder / "results.json")
    shown: list[dict[str, str]] = []
    for name, figure in figures(result).items():
        drawing = svg_text(figure)
        write_text(folder / f"{name}.svg", drawing)
        save(figure, folder / f"{name}.png")
        written += [folder / f"{name}.svg", folder / f"{name}.png"]
        title, caption = _CAPTIONS.get(name, ("Schedule", _SCHEDULE_CAPTION))
        image = base64.b64encode(drawing.encode()).decode()
        shown.append({"name": name, "title": title, "caption": caption, "image": image})
    write_text(folder / PAGE, page(result, shown))
    return [folder / PAGE, *written]


def page(result: Reproduction, shown: list[dict[str, str]]) -> str:
    """Return the page: tables, figures (base64 SVG), and text; needs nothing beside itself."""
    by_part: dict[str, list[dict[str, str]]] = {FIGURE_3: [], FIGURE_4: [], FIGURE_5: [], OPEN_QUESTION: []}
    for one in shown:
        part = {"budget-curves": FIGURE_4}.get(one["name"], one["name"].split("-latency")[0].split("-operators")[0])
        by_part[part if part in by_part else FIGURE_5].append(one)
    return render(
        _TEMPLATE,
        source=SOURCE,
        version=version("cimplan"),
        hosts=[_host(result, host.key) for host in result.hosts],
        how_made=how_made(result),
        differences=differences(result),
        table_one=table_one(result) if TABLE_1 in result.parts else [],
        titles=TITLES,
        figures=by_part,
        question=_question(result),
        elapsed_s=result.elapsed_s,
        instances=len(result.instances),
        optimal=sum(item.status == "optimal" for item in result.instances),
    )


def _question(result: Reproduction) -> dict[str, Any] | None:
    question = result.question
    if question is None:
        return None
    networks = {network.model: network for network in question.networks}
    return {
        "rows": question_rows(result)["networks"],
        "networks": networks,
        "fitted_model": networks.get(FITTED_MODEL),
        "fitted": question.fitted,
        "hosts": [
            {
                "processor": result.host(one.host).processor,
                "origin": result.host(one.host).origin,
                "bounds": {budget: bound for budget, bound in one.bounds.items() if not math.isinf(bound)},
                "published": SPEEDUPS_50NS[result.host(one.host).published, one.model],
                "unevenness": one.unevenness,
            }
            for one in question.hosts
            if one.model == FITTED_MODEL
        ],
    }


def _host(result: Reproduction, key: str) -> dict[str, Any]:
    host = result.host(key)
    machine = next(iter(host.profiles.values())).machine
    return {
        "key": key,
        "processor": host.processor,
        "origin": host.origin,
        "published": HOST_TITLES[host.published],
        "runtime": f"onnxruntime {machine.onnxruntime}" if machine.onnxruntime else "none",
        "threads": machine.threads,
        "hardware": host.hardware.name,
        "models": [
            {"title": TITLES[model], "host_ms": profile.total_ns / 1e6} for model, profile in host.profiles.items()
        ],
    }
