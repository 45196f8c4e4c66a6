"""``cimplan hardware``: presets, and the check of a description."""

from __future__ import annotations

from typing import Annotated

import typer

from cimplan.cli.console import emit, emit_json, facts, table
from cimplan.cli.options import JsonOption

app = typer.Typer(help="List, show and check hardware descriptions.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_presets(json: JsonOption = False) -> None:
    """List the presets."""
    from cimplan.hardware import load_preset, preset_names

    presets = [load_preset(name) for name in preset_names()]
    rows = [(preset.name, "compile" if preset.dual_mode else "partition", preset.description) for preset in presets]
    if json:
        emit_json([{"name": name, "command": command, "description": text} for name, command, text in rows])
    else:
        table(("name", "for", "description"), rows)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Preset or YAML file.", show_default=False)],
    json: JsonOption = False,
) -> None:
    """Show a description with the source of each number; a preset's text can be saved and edited."""
    from cimplan.hardware import load, preset_names, preset_text

    hardware = load(name)
    if json:
        emit_json(hardware.to_description())
    elif name in preset_names():
        emit(preset_text(name).rstrip())
    else:
        import yaml

        emit(yaml.safe_dump(hardware.to_description(), sort_keys=False, allow_unicode=True).rstrip())


@app.command()
def check(
    file: Annotated[str, typer.Argument(help="YAML file or preset.", show_default=False)],
    json: JsonOption = False,
) -> None:
    """Check a description; remarks on numbers without a source do not fail it."""
    from cimplan.hardware import check as check_description
    from cimplan.hardware import number_fields

    hardware, remarks = check_description(file)
    if json:
        emit_json({"name": hardware.name, "valid": True, "remarks": list(remarks)})
        return
    emit(f"{hardware.name}: valid")
    facts(sorted(number_fields(hardware).items()))
    for remark in remarks:
        emit(f"  remark: {remark}")
