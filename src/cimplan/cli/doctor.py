"""``cimplan doctor``: what this installation is made of, and whether it works."""

from __future__ import annotations

from pathlib import Path

from cimplan.cli.console import emit, emit_json, facts
from cimplan.cli.options import JsonOption

_LIBRARIES = ("numpy", "onnx", "onnxruntime", "ortools", "pydantic", "pyyaml", "rich", "typer")
_EXTRAS = {
    "explore": ("jinja2", "matplotlib", "optuna", "pg8000", "polars", "sqlalchemy"),
    "dask": ("distributed",),
}


def doctor(json: JsonOption = False) -> None:
    """Show versions and environment, and try the parts that most often fail."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from cimplan import __version__
    from cimplan.cache import cache_directory

    def installed(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    checks = dict(_checks())
    found = {
        "cimplan": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cache": str(cache_directory()),
        "libraries": {name: installed(name) for name in _LIBRARIES},
        "extras": {extra: {name: installed(name) for name in names} for extra, names in _EXTRAS.items()},
        "checks": checks,
    }
    if json:
        emit_json(found)
    else:
        emit(f"cimplan {__version__}, Python {found['python']}, {found['platform']}")
        facts((name, installed(name) or "MISSING") for name in _LIBRARIES)
        for extra, names in _EXTRAS.items():
            missing = [name for name in names if installed(name) is None]
            state = f"missing: {', '.join(missing)} (pip install 'cimplan[{extra}]')" if missing else "complete"
            emit(f"  extra {extra}: {state}")
        emit(f"  cache: {found['cache']}")
        for name, fault in checks.items():
            emit(f"  {name}: {fault or 'works'}")
    if any(checks.values()):
        import typer

        raise typer.Exit(1)


def _checks() -> list[tuple[str, str]]:
    """Return (what, fault) pairs; an empty fault means that it works."""
    return [
        ("ONNX Runtime", _try_runtime()),
        ("OR-Tools", _try_solver()),
        ("cache folder", _try_cache()),
    ]


def _try_runtime() -> str:
    try:
        import onnxruntime
    except ImportError as error:
        return f"cannot be imported: {error}"
    if "CPUExecutionProvider" not in onnxruntime.get_available_providers():
        return "has no CPU execution provider"
    return ""


def _try_solver() -> str:
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        return f"cannot be imported: {error}"
    model = cp_model.CpModel()
    value = model.new_int_var(0, 7, "value")
    model.maximize(value)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    return "" if solver.solve(model) == cp_model.OPTIMAL and solver.value(value) == 7 else "gives a wrong answer"


def _try_cache() -> str:
    from cimplan.cache import cached_file
    from cimplan.errors import InputError

    try:
        probe = cached_file("doctor", ".txt", _write_probe)
    except InputError as error:
        return str(error)
    probe.unlink(missing_ok=True)
    return ""


def _write_probe(path: Path) -> None:
    path.write_text("cimplan", encoding="utf-8")
