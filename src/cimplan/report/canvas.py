"""Figures without global state: made through matplotlib's object interface, saved whole or not at all."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from cimplan.errors import InputError
from cimplan.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito: told apart by everyone, also in grey.
BLUE: Final = "#0072B2"
ORANGE: Final = "#E69F00"
GREEN: Final = "#009E73"
VERMILION: Final = "#D55E00"
SKY: Final = "#56B4E9"
PURPLE: Final = "#CC79A7"
GREY: Final = "#999999"
INK: Final = "#222222"
SERIES: Final = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION)

_FAINT: Final = "#d9d9d9"


def require_matplotlib() -> None:
    """Refuse to draw where matplotlib is missing.

    Raises
    ------
    InputError
        With the command that installs it.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InputError(
            "figures need matplotlib, which is not installed", fix="Install it with: pip install 'cimplan[explore]'"
        ) from error


def new_figure(width: float = 6.4, height: float = 3.6) -> Figure:
    """Return an empty figure of a size in inches, laid out so that nothing overlaps."""
    require_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def axes_or_new(ax: Axes | None, width: float = 6.4, height: float = 3.6) -> Axes:
    """Return the given axes, or those of a new figure."""
    if ax is not None:
        return ax
    made: Axes = new_figure(width, height).subplots()
    return made


def tidy(ax: Axes, *, grid: Literal["x", "y", "both"] = "y") -> None:
    """Drop what carries no data: two of the frame's lines; put a faint grid behind the rest."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.set_axisbelow(True)
    ax.grid(axis=grid, color=_FAINT, linewidth=0.6)


def save(figure: Figure, path: Path) -> None:
    """Write a figure as SVG, PNG or PDF, by the suffix; the same figure gives the same file.

    Raises
    ------
    InputError
        If the suffix is another or the file cannot be written.
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("svg", "png", "pdf"):
        raise InputError("a figure is saved as .svg, .png or .pdf", where=str(path))
    with replacing(path) as temporary, _saving():
        figure.savefig(temporary, format=kind, dpi=150, facecolor="white", metadata=_metadata(kind))


def svg_text(figure: Figure) -> str:
    """Return a figure as an SVG element to embed in a page."""
    buffer = io.StringIO()
    with _saving():
        figure.savefig(buffer, format="svg", facecolor="white", metadata=_metadata("svg"))
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _metadata(kind: str) -> dict[str, str | None]:
    return {"CreationDate": None} if kind == "pdf" else {} if kind == "png" else {"Date": None}


@contextmanager
def _saving() -> Iterator[None]:
    from matplotlib import rc_context

    # Text stays text: smaller files that can be searched and read aloud. The salt makes the same figure the same file.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "cimplan"}):
        yield
