"""``cimplan zoo``: reference networks that need no download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cimplan.cli.console import emit, emit_json, table, working
from cimplan.cli.options import JsonOption, QuietOption

app = typer.Typer(help="List and export reference networks.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_networks(json: JsonOption = False) -> None:
    """List the reference networks and their parameters."""
    from cimplan.zoo import ZOO

    if json:
        emit_json(
            [
                {
                    "name": entry.name,
                    "description": entry.description,
                    "source": entry.source,
                    "input_name": entry.input_name,
                    "input_shape": list(entry.input_shape),
                    "weights": entry.weights,
                    "weightless": entry.weightless,
                    "parameters": {
                        item.name: {"default": item.default, "values": item.values, "description": item.description}
                        for item in entry.params
                    },
                }
                for entry in ZOO.values()
            ]
        )
        return
    table(
        ("name", "weights", "runs", "description", "example"),
        (
            (entry.name, f"{entry.weights:,}", "no" if entry.weightless else "yes", entry.description, entry.example)
            for entry in ZOO.values()
        ),
        right=(1,),
    )


@app.command()
def export(
    name: Annotated[str, typer.Argument(help="Reference, such as yolov5n or opt_13b?seq=64.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="ONNX file to write.")],
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a reference network as an ONNX file: int8, or what `form=float` asks for; weightless ones as they are."""
    import shutil

    from cimplan.api.models import load
    from cimplan.files import replacing

    with working("building the network", quiet=quiet or json):
        model = load(name if name.startswith("zoo:") else f"zoo:{name}")
        with replacing(output) as temporary:
            shutil.copyfile(model.path, temporary)
    if json:
        emit_json({"model": model.name, "output": str(output), "weightless": model.weightless})
    else:
        emit(f"wrote {output}")
