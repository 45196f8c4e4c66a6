"""Files of the CMSwitch reproduction: tables as CSV, figures as SVG and PNG, everything as JSON, and one page."""

from __future__ import annotations

import base64
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from cimplan.explore import published_cmswitch as published
from cimplan.explore.cmswitch import Reproduction
from cimplan.explore.cmswitch_cases import (
    ALLOCATION,
    BATCH,
    COMPILE_TIME,
    END_TO_END,
    PROGRAMS,
    READINGS,
    SEQUENCE,
    SWITCHING,
    VGG16,
)
from cimplan.files import write_json, write_text
from cimplan.report import cmswitch_tables as tables
from cimplan.report.canvas import save, svg_text
from cimplan.report.cmswitch_figures import figures
from cimplan.report.cmswitch_text import differences, how_made, survivors
from cimplan.report.klein2026 import require_extras
from cimplan.report.pages import render

PAGE: Final = "index.html"
_TEMPLATE: Final = "cmswitch.html.j2"
_VGG16_ROWS: Final = 24

_CAPTIONS: Final = {
    "end-to-end": (
        "End to end",
        "Mean over batch sizes. Black lines: printed averages, the same for both cost models.",
    ),
    "sequence": ("Sequence length", "Diamonds: printed, where we know the number."),
    "batch": ("Batch size", "Larger batches raise the intensity of every layer, so data matter less."),
    "allocation": (
        "Allocation",
        "Arrays of each operator, averaged over the time of its segments; of a transformer those of one layer.",
    ),
    "switching": ("What the time goes to", "Switching is there, and too thin to see."),
    "readings": ("Readings", "One line for each thing that is changed; the last one is printed."),
}


def write_report(result: Reproduction, folder: Path) -> list[Path]:
    """Write all files of a reproduction, each whole or not at all.

    Parameters
    ----------
    result : Reproduction
        What to write.
    folder : Path
        Must exist; files of the same names are replaced.

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
    for name, text in tables.csv_tables(result).items():
        write_text(folder / name, text)
        written.append(folder / name)
    write_json(folder / "results.json", tables.to_json(result))
    written.append(folder / "results.json")
    shown: dict[str, dict[str, str]] = {}
    for name, figure in figures(result).items():
        for suffix in (".svg", ".png"):
            save(figure, folder / f"{name}{suffix}")
            written.append(folder / f"{name}{suffix}")
        title, caption = _CAPTIONS[name]
        image = base64.b64encode(svg_text(figure).encode()).decode()
        shown[name] = {"name": name, "title": title, "caption": caption, "image": image}
    write_text(folder / PAGE, page(result, shown))
    return [folder / PAGE, *written]


def page(result: Reproduction, shown: dict[str, dict[str, str]]) -> str:
    """Return the page: tables, figures (base64 SVG), and text; needs nothing beside itself."""
    rows: dict[str, Any] = {
        "end_to_end": tables.end_to_end(result) if END_TO_END in result.parts else [],
        "sequence": tables.sequence(result) if SEQUENCE in result.parts else [],
        "batch": tables.batch(result) if BATCH in result.parts else [],
        "allocation": tables.allocation(result) if ALLOCATION in result.parts else [],
        "vgg16": tables.vgg16(result)[:_VGG16_ROWS] if VGG16 in result.parts else [],
        "switching": tables.switching(result) if SWITCHING in result.parts else [],
        "compile_time": tables.compile_time(result) if COMPILE_TIME in result.parts else [],
        "readings": tables.readings(result) if READINGS in result.parts else [],
        "programs": tables.programs(result) if PROGRAMS in result.parts else [],
    }
    kept, lost = survivors(result) if END_TO_END in result.parts else ([], [])
    return render(
        _TEMPLATE,
        source=published.SOURCE,
        version=version("cimplan"),
        hardware=result.hardware,
        chip=result.hardware.dual_mode,
        rows=rows,
        models=[case.model for case in result.evaluation.table()],
        titles=published.TITLES,
        figures=shown,
        how_made=how_made(result),
        differences=differences(result),
        kept=kept,
        lost=lost,
        overall={name: result.overall(name) for name in ("published", "resident")},
        printed=published.OVERALL_SPEEDUP,
        plans=len(result.outcomes),
        optimal=sum(one.status == "optimal" for one in result.outcomes),
        elapsed_s=result.elapsed_s,
    )
