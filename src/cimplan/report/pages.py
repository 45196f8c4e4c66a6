"""HTML pages from templates: one self-contained file each, everything from outside escaped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from cimplan.errors import InputError

if TYPE_CHECKING:
    from jinja2 import Environment


def require_jinja2() -> None:
    """Refuse to make a page where jinja2 is missing.

    Raises
    ------
    InputError
        With the command that installs it.
    """
    try:
        import jinja2  # noqa: F401
    except ImportError as error:
        raise InputError(
            "pages need jinja2, which is not installed", fix="Install it with: pip install 'cimplan[explore]'"
        ) from error


def render(template: str, **values: Any) -> str:
    """Return the page of a template in `report/templates`.

    Parameters
    ----------
    template : str
        File name.
    values
        What the template shows; text is escaped.

    Raises
    ------
    InputError
        If jinja2 is not installed.
    """
    require_jinja2()
    return _environment().get_template(template).render(**values)


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("cimplan.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["listed"] = listed
    return environment


def listed(items: Iterable[object], form: str = "{}") -> str:
    """Return things as people list them in a sentence, each in a format."""
    words = [form.format(item) for item in items]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
