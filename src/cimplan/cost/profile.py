"""Measuring what a network costs on this host, operator by operator, with ONNX Runtime.

The runs themselves, and what is recorded of them, are `cimplan.cost.runs`; what becomes of a recording is
`cimplan.cost.recorded`. Here they meet: with the model's file, the cache, and what is known of the machine.
"""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cimplan.cost.naming import with_file_nodes, with_stable_names
from cimplan.cost.profile_file import SCHEMA_VERSION, HostProfile, MachineRecord, ModelRecord, load, record_of
from cimplan.cost.recorded import fastest_quarter, midmean, spread
from cimplan.errors import CimplanError, InputError
from cimplan.files import scratch_folder, sha256_of
from cimplan.graph.operators import OperatorGraph
from cimplan.graph.values import described

if TYPE_CHECKING:
    import onnxruntime as ort

    from cimplan.cost.session import Prepared
    from cimplan.graph.values import Values

Progress = Callable[[int, int], None]
"""Called with the runs that count so far and the runs that are to count in all."""

TIME_BUDGET_S = 10.0
"""Rough time of a measurement unless told otherwise."""

_MOST_THREADS = 1024
_RECURRENT_RANK = 3
_EXTERNAL_FROM_BYTES = 2**30


def measure(
    path: Path,
    *,
    threads: int = 1,
    runs: int | None = None,
    time_budget_s: float = TIME_BUDGET_S,
    seed: int = 0,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    values: Values | None = None,
    progress: Progress | None = None,
) -> HostProfile:
    """Measure a model on this machine.

    Runs that other work has disturbed are taken again while there is time; where that does not help, the profile says
    so (`HostProfile.disturbed`).

    Parameters
    ----------
    path : Path
        An ONNX model file; it is only read.
    threads : int
        Threads an operator may use.
    runs : int, optional
        Runs that count for each figure; by default as many as fit `time_budget_s`, between 5 and 400.
    time_budget_s : float
        Rough time for all runs together.
    seed : int
        Of the random inputs.
    shapes : mapping of str to tuple of int, optional
        Shapes of inputs whose dimensions the model leaves open.
    values : mapping of str to array, optional
        Inputs that are not random but given.
    progress : callable, optional
        Called now and then with runs done and runs in all.

    Returns
    -------
    HostProfile
        With origin "measured".

    Raises
    ------
    InputError
        If the model cannot be read or run here, or an input's shape is not known.
    """
    if not 1 <= threads <= _MOST_THREADS or (runs is not None and runs < 1):
        raise InputError(f"threads must be from 1 to {_MOST_THREADS}, and runs at least 1")
    from cimplan.cost import runs as running
    from cimplan.cost import session
    from cimplan.cost.disturbance import best_reference
    from cimplan.cost.layout import of_network
    from cimplan.cost.recorded import RecordingFile, profile_of

    given = dict(shapes or {})
    known_ns = _known_reference_ns()
    with scratch_folder("profile") as name:
        folder = Path(name)
        prepared = _prepare(path, folder, threads, given, seed, values)
        recording = running.record(
            prepared,
            folder,
            threads=threads,
            seed=seed,
            budget_s=time_budget_s,
            runs=runs,
            known_reference_ns=known_ns,
            progress=progress,
        )
    _remember_reference(best_reference(recording.blocks, known_ns), known_ns)
    found = RecordingFile.model_validate(
        {
            "schema_version": SCHEMA_VERSION,
            "cimplan_version": package_version("cimplan"),
            "origin": "measured",
            "model": model_record(path),
            "machine": MachineRecord(**session.machine_values(threads), onnx=package_version("onnx")),
            "shapes": given,
            "values": described(values or {}),
            "recording": recording.to_values(),
        }
    )
    profile = of_network(profile_of(found, _called(path), known_reference_ns=known_ns), path)
    return profile.model_copy(update={"graph_record": record_of(with_file_nodes(profile.graph(), path))})


def cached_or_measure(
    path: Path,
    *,
    threads: int = 1,
    time_budget_s: float = TIME_BUDGET_S,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    values: Values | None = None,
    progress: Progress | None = None,
) -> HostProfile:
    """Return the profile of a model on this machine, measured once and kept in the cache.

    The key is the model's content, the shapes, threads, time budget, processor and versions; a cached file that no
    longer reads is measured again. A disturbed profile is not kept. Arguments as for `measure`.

    Raises
    ------
    InputError
        As `measure`.
    """
    from cimplan.cache import cached_file, path_of
    from cimplan.cost.session import cpu_name

    model_hash = _hash(path)
    given = ",".join(f"{name}={'x'.join(map(str, shape))}" for name, shape in sorted((shapes or {}).items()))
    given += "".join(f";{name}={value}" for name, value in described(values or {}).items())
    versions = [f"{package}={package_version(package)}" for package in ("onnxruntime", "cimplan")]
    effort = (f"threads={threads}", f"budget={time_budget_s:g}s")
    key = "|".join((path.stem, "profile 3", model_hash, given, *effort, cpu_name(), platform.machine(), *versions))
    kept = path_of(key, ".json")
    if kept.is_file():
        with suppress(InputError):
            return load(kept)
        kept.unlink(missing_ok=True)
    profile = measure(
        path, threads=threads, time_budget_s=time_budget_s, shapes=shapes, values=values, progress=progress
    )
    if profile.disturbed:
        return profile
    return load(cached_file(key, ".json", lambda target: _write(target, profile.to_json())))


def _write(target: Path, text: str) -> None:
    target.write_text(text, encoding="utf-8")


def optimised_graph(
    path: Path,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    values: Values | None = None,
    save_to: Path | None = None,
) -> tuple[OperatorGraph, str]:
    """Return the graph as ONNX Runtime optimises it here, and this machine's architecture.

    The model runs once, for its shapes; nothing is timed. With `save_to` the graph is also written there as ONNX,
    weights perhaps in a file beside it: the same one, because ONNX Runtime may name fused nodes differently the next
    time. Its shapes are then those of that file, padded where this host's layout pads channels; without `save_to` they
    are those of the network.

    Raises
    ------
    InputError
        If the model cannot be read or run here, or an input's shape is not known.
    """
    from cimplan.cost import runs as running

    with scratch_folder("profile") as name:
        folder = Path(name)
        given = dict(shapes or {})
        prepared = _prepare(path, folder, 1, given, 0, values)
        prepared.original = None
        tensors = running.recorded_tensors(prepared, folder)
        graph = _read_graph(prepared.saved, tensors, given, path, as_saved=save_to is not None)
        if save_to is not None:
            beside = prepared.saved.with_name(f"{prepared.saved.name}.data")
            for source, target in ((prepared.saved, save_to), (beside, save_to.with_name(beside.name))):
                if source.is_file():
                    shutil.move(source, target)
        return graph, platform.machine()


def _prepare(
    path: Path,
    folder: Path,
    threads: int,
    shapes: Mapping[str, tuple[int, ...]],
    seed: int,
    values: Values | None,
) -> Prepared:
    from cimplan.cost import host, session
    from cimplan.cost.attention import split_where_equal

    external = weights_beside(path)
    # The session that is measured says whether a dimension is left open; one more is needed only for given shapes.
    sizes = input_sizes(path, threads, shapes) if shapes else {}

    def verify(opened: ort.InferenceSession) -> None:
        host.symbolic_sizes(opened, shapes, str(path))
        # With fixed shapes ONNX Runtime lists them, and with given ones these count.
        _require_steps(path, {value.name: shapes.get(value.name, tuple(value.shape)) for value in opened.get_inputs()})

    return session.prepare(
        path,
        folder,
        threads=threads,
        shapes=shapes,
        sizes=sizes,
        external=external,
        seed=seed,
        verify=verify,
        values=dict(values or {}),
        rewrite=split_where_equal,
    )


def input_sizes(path: Path, threads: int, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Return what given input shapes mean for the symbolic dimensions of a model.

    Raises
    ------
    InputError
        If the model cannot be loaded, or the shapes do not fit it or leave a dimension open.
    """
    from cimplan.cost import host, session

    weights_beside(path)
    return host.symbolic_sizes(session.open_session(path, threads=threads, optimise=False), shapes, str(path))


def _called(path: Path) -> str:
    return f"{path}, as ONNX Runtime optimises it"


def _read_graph(
    saved: Path,
    recorded: Mapping[str, tuple[str, tuple[int, ...]]],
    shapes: Mapping[str, tuple[int, ...]],
    path: Path,
    *,
    as_saved: bool = False,
) -> OperatorGraph:
    """Return the graph saved for a model, under the model's name also in errors.

    Shapes are those of the network unless they are wanted as saved, padded for this host's layout.
    """
    from dataclasses import replace

    from cimplan.graph.layout import network_of
    from cimplan.graph.read import read_graph

    graph = read_graph(saved, shapes=shapes, recorded=recorded, where=_called(path))
    if not as_saved:
        graph = network_of(graph, path)
    return with_file_nodes(with_stable_names(replace(graph, name=path.stem)), path)


def model_record(path: Path) -> ModelRecord:
    """Return which file a model is."""
    return ModelRecord(name=path.name, sha256=_hash(path), size_bytes=path.stat().st_size)


def package_version(package: str) -> str:
    """Return the version of an installed package, empty if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _hash(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        raise InputError(
            "cannot read the model", where=str(path), why=str(error.strerror), fix="Check the name of the file"
        ) from error


def _require_steps(path: Path, shapes: Mapping[str, Sequence[int | str | None]]) -> None:
    """Refuse recurrent operators on inputs without elements, or without three dimensions: they end the process."""
    from cimplan.graph.skim import read_skeleton

    empty = any(0 in shape for shape in shapes.values())
    if not empty and all(len(shape) == _RECURRENT_RANK for shape in shapes.values()):
        return
    for node in read_skeleton(path).graph.node:
        if node.op_type not in ("GRU", "LSTM", "RNN"):
            continue
        if empty or len(shapes.get(node.input[0] if node.input else "", range(_RECURRENT_RANK))) != _RECURRENT_RANK:
            what = "inputs without elements" if empty else "an input that has not three dimensions"
            raise InputError(
                f"cannot run a recurrent operator on {what}",
                where=f"{path}: node {node.name or node.op_type!r}",
                why="ONNX Runtime cannot",
                fix="Give a shape of three dimensions without 0, with --shape where the model leaves it open",
            )


def weights_beside(path: Path) -> bool:
    """Check a model before ONNX Runtime opens it; return whether the optimised graph is to have its weights beside it.

    ONNX Runtime would open any file a model names as external data; the check keeps that to the model's folder.

    Raises
    ------
    InputError
        If the model cannot be read, or external data are outside its folder or missing.
    """
    from cimplan.graph.external import require_external_data
    from cimplan.graph.read import all_tensors, require_readable
    from cimplan.graph.skim import read_skeleton

    model = read_skeleton(path)
    require_readable(model, str(path))
    beside = require_external_data(all_tensors(model.graph), path)
    size = path.stat().st_size + sum(data.stat().st_size for data in beside)
    # A model that keeps weights beside itself must have all of them beside the saved graph too.
    return bool(beside) or size >= _EXTERNAL_FROM_BYTES


def _reference_path() -> Path:
    """Return where the best time of the reference loop on this machine is kept."""
    from cimplan.cache import path_of
    from cimplan.cost.session import cpu_name

    return path_of("|".join(("reference", cpu_name(), platform.machine(), package_version("numpy"))), ".json")


def _known_reference_ns() -> float:
    """Return the best time of the reference loop known from earlier on this machine, 0 if none is."""
    from cimplan.files import read_json

    try:
        kept: Any = read_json(_reference_path(), "reference")
    except (CimplanError, OSError):
        return 0.0
    best = kept.get("best_ns") if isinstance(kept, dict) else None
    return float(best) if isinstance(best, (int, float)) and not isinstance(best, bool) and best > 0 else 0.0


def _remember_reference(best_ns: float, known_ns: float) -> None:
    """Keep the best time of the reference loop; without a cache later measurements know less, and still work."""
    from cimplan.files import write_text

    if not best_ns or (known_ns and best_ns >= known_ns):
        return
    with suppress(CimplanError, OSError):
        path = _reference_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps({"best_ns": best_ns}) + "\n")


__all__ = [
    "HostProfile",
    "Progress",
    "cached_or_measure",
    "fastest_quarter",
    "load",
    "measure",
    "midmean",
    "model_record",
    "optimised_graph",
    "package_version",
    "spread",
]
