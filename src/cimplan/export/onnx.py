"""A plan as ONNX: the graph it was made for with the placement of each node, or one file per part.

Plans are made for the graph that ONNX Runtime really runs, so that graph is what is written: the model is optimised
again, and it must give the operators of the plan. Placement stands in the `metadata_props` of each node (custom
attributes on standard operators fail the ONNX checker), keys starting with ``cimplan.``. An operator may stand for
several nodes: reorders of the host's layout go with the operator that needs them. The user's file is only read.

Parts: a region of a plan can hold operators before and after another region, so it cannot always run in one go. A
*part* is a connected group of operators of one place and one level, where the level counts the changes of place on
the longest path to an operator. Run in the order of the manifest, every part finds its inputs made.

Each node also carries its place as ONNX Runtime's own annotation (`layer_ann`), so that a session with two execution
providers follows the plan if it is opened with `LAYER_ASSIGNMENT`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cimplan.cost.problem import CIM, HOST
from cimplan.errors import InputError, InternalError
from cimplan.export.matching import match_operators
from cimplan.files import is_file, replacing, scratch_folder, sha256_of, write_json
from cimplan.graph.wire import Edited, field_start
from cimplan.plan.plan import Plan
from cimplan.units import format_size

if TYPE_CHECKING:
    import onnx

    from cimplan.graph.operators import Tensor
    from cimplan.graph.values import Values

MANIFEST_VERSION: Final = 1
MANIFEST: Final = "manifest.json"
LAYER_ANNOTATION: Final = "layer_ann"
"""Key of the metadata of a node that ONNX Runtime matches with the rules of a session."""

LAYER_ASSIGNMENT: Final = ("session.layer_assignment_settings", f"accelerator(={CIM}); cpu(={HOST})")
"""Key and value of the session option with which ONNX Runtime puts annotated nodes where the plan has them."""

# Nodes have metadata since this version of the format.
_IR_VERSION: Final = 10
_SIZE_LIMIT_BYTES: Final = 2**31 - 1
_SAVED: Final = "optimised.onnx"


@dataclass(frozen=True, slots=True)
class Segment:
    """Operators that run in one go at one place.

    Attributes
    ----------
    place : str
        Where.
    level : int
        Changes of place on the longest path to its operators.
    operators : tuple of int
        Indices into the plan's operators, ascending.
    """

    place: str
    level: int
    operators: tuple[int, ...]


@dataclass(frozen=True)
class _Nodes:
    """The nodes that an operator of a plan stands for: the one that it is called after, and all in their order."""

    main: onnx.NodeProto
    all: tuple[onnx.NodeProto, ...]


def segments(plan: Plan) -> tuple[Segment, ...]:
    """Return the parts of a plan in an order in which they can run."""
    index = {operator.name: number for number, operator in enumerate(plan.operators)}
    places = [operator.place for operator in plan.operators]
    edges = [(index[edge.source], index[edge.target]) for edge in plan.dependencies]
    level = [0] * len(places)
    root = list(range(len(places)))

    def find(v: int) -> int:
        while root[v] != v:
            root[v] = root[root[v]]
            v = root[v]
        return v

    # Sorted by source, so the level of a source is final when its edges come.
    for source, target in edges:
        level[target] = max(level[target], level[source] + (places[source] != places[target]))
    for source, target in edges:
        if places[source] == places[target] and level[source] == level[target]:
            first, second = sorted((find(source), find(target)))
            root[second] = first
    members: dict[int, list[int]] = {}
    for v in range(len(places)):
        members.setdefault(find(v), []).append(v)
    found = [Segment(places[first], level[first], tuple(some)) for first, some in members.items()]
    return tuple(sorted(found, key=lambda part: (part.level, part.operators)))


def write_onnx(
    plan: Plan,
    path: Path,
    *,
    model: Path,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    values: Values | None = None,
) -> tuple[Path, ...]:
    """Write the graph of a plan with the placement of each node.

    Parameters
    ----------
    plan : Plan
        The plan.
    path : Path
        The file to write; must not be the model.
    model : Path
        The model the plan was made for.
    shapes : mapping of str to tuple of int, optional
        Shapes of inputs that the model leaves open, as when the plan was made.
    values : mapping of str to array, optional
        Values of inputs, as when the plan was made.

    Returns
    -------
    tuple of Path
        The file written.

    Raises
    ------
    InputError
        If the model is another one, or its optimised graph has other operators than the plan.
    """
    if path.resolve() == model.resolve():
        raise InputError("the model would be overwritten", where=str(path), fix="Choose another output file")
    with _optimised(plan, model, shapes or {}, values) as (proto, nodes, _, weights):
        _annotate(plan, proto, nodes)
        _save(proto, path, weights)
    return (path,)


def write_parts(
    plan: Plan,
    folder: Path,
    *,
    model: Path,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    values: Values | None = None,
) -> tuple[Path, ...]:
    """Write one ONNX file per part, each loadable on its own, and a manifest that says how they fit together.

    Parameters
    ----------
    plan, model, shapes, values
        As for `write_onnx`.
    folder : Path
        Where to write; made if it does not exist. The manifest is written last.

    Returns
    -------
    tuple of Path
        The manifest, then the files in the order in which they can run.

    Raises
    ------
    InputError
        As for `write_onnx`, or if the folder cannot be made.
    """
    written, entries = [], []
    with _optimised(plan, model, shapes or {}, values) as (proto, nodes, tensors, weights):
        _annotate(plan, proto, nodes)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                "cannot make the folder",
                where=str(folder),
                why=str(error.strerror),
                fix="Choose another folder with -o",
            ) from error
        # One after another: only the weights of one part are held.
        for part, entry in _split(plan, proto, nodes, tensors):
            _save(part, folder / entry["file"], weights)
            written.append(folder / entry["file"])
            entries.append(entry)
    constants = _constants(proto.graph)
    manifest = {
        "schema_version": MANIFEST_VERSION,
        "kind": "partition-parts",
        "tool_version": plan.tool_version,
        "model": plan.model,
        "model_sha256": plan.inputs.get("model", ""),
        "inputs": [value.name for value in proto.graph.input if value.name not in constants],
        "outputs": [value.name for value in proto.graph.output],
        "parts": entries,
    }
    write_json(folder / MANIFEST, manifest)
    return (folder / MANIFEST, *written)


@contextmanager
def _optimised(
    plan: Plan, model: Path, shapes: Mapping[str, tuple[int, ...]], values: Values | None
) -> Iterator[tuple[onnx.ModelProto, list[_Nodes], Mapping[str, Tensor], Path]]:
    """Give the optimised graph of the model, the nodes of each of the plan's operators, its tensors, and a folder.

    The folder holds those of its weights that lie in a file beside it.
    """
    import onnx

    from cimplan.cost.layout import fold_reorders
    from cimplan.cost.profile import optimised_graph
    from cimplan.graph.layout import network_of

    if not is_file(model):
        raise InputError(
            "cannot read the model",
            where=str(model),
            why="there is no such file",
            fix="Give the model the plan was made for",
        )
    known = plan.inputs.get("model", "")
    found = sha256_of(model)
    if known and known != found:
        raise InputError(
            "the plan is not of this model",
            where=str(model),
            why=f"the plan is of {plan.model!r} with SHA-256 {known}, this file has {found}",
            fix="Give the model the plan was made for",
        )
    with scratch_folder("export") as name:
        saved = Path(name) / _SAVED
        graph, _ = optimised_graph(model, shapes=shapes, values=values, save_to=saved)
        proto = onnx.load(saved, load_external_data=False)
        by_output = {output: node for node in proto.graph.node for output in node.output}
        by_name = {op.name: by_output[op.outputs[0]] for op in graph.operators}
        fold = fold_reorders(network_of(graph, model))
        nodes = [
            _Nodes(by_name[name], tuple(by_name[other] for other in fold.stands_for[name]))
            for name in match_operators(plan, fold.graph)
        ]
        yield proto, nodes, graph.tensors, Path(name)


def _annotate(plan: Plan, proto: onnx.ModelProto, nodes: list[_Nodes]) -> None:
    region = {name: number for number, part in enumerate(plan.regions) for name in part.operators}
    for item, found in zip(plan.operators, nodes, strict=True):
        found.main.name = item.name  # the plan's name, where ONNX Runtime counted differently this time
        for node in found.all:
            _annotate_layer(node, item.place)
            _set(
                node,
                place=item.place,
                region=str(region[item.name]),
                start_ns=f"{item.start_ns:.17g}",
                finish_ns=f"{item.finish_ns:.17g}",
                crossbars=str(item.crossbars),
                reason=item.reason,
                **({"file_nodes": json.dumps(item.file_nodes)} if node is found.main else {"operator": item.name}),
            )
    _set(
        proto,
        tool=f"cimplan {plan.tool_version}",
        hardware=plan.hardware,
        method=plan.method,
        status=plan.status,
        solver_claims=plan.solver_claims,
        fixes=", ".join(f"{name}={place}" for name, place in plan.fixes.items()),
        makespan_ns=f"{plan.makespan_ns:.17g}",
        lower_bound_ns=f"{plan.lower_bound_ns:.17g}",
        model_sha256=plan.inputs.get("model", ""),
        layer_assignment_settings=LAYER_ASSIGNMENT[1],
    )
    proto.ir_version = max(proto.ir_version, _IR_VERSION)


def _annotate_layer(node: onnx.NodeProto, place: str) -> None:
    kept = [(entry.key, entry.value) for entry in node.metadata_props if entry.key != LAYER_ANNOTATION]
    del node.metadata_props[:]
    for key, value in [*kept, (LAYER_ANNOTATION, place)]:
        node.metadata_props.add(key=key, value=value)


def _set(proto: onnx.ModelProto | onnx.NodeProto, **values: str) -> None:
    """Set metadata entries of a model or node; those of others stay."""
    kept = [(entry.key, entry.value) for entry in proto.metadata_props if not entry.key.startswith("cimplan.")]
    del proto.metadata_props[:]
    for key, value in [*kept, *((f"cimplan.{key}", value) for key, value in values.items())]:
        proto.metadata_props.add(key=key, value=value)


def _split(
    plan: Plan, proto: onnx.ModelProto, nodes: list[_Nodes], tensors: Mapping[str, Tensor]
) -> Iterator[tuple[onnx.ModelProto, dict[str, Any]]]:
    """Yield the model of each part with its entry in the manifest."""
    import onnx

    from cimplan.graph.nodes import captured_names

    graph = proto.graph
    constants = _constants(graph)
    declared = {value.name: value for value in (*graph.input, *graph.output)}
    reads = [
        list(dict.fromkeys(name for node in found.all for name in (*filter(None, node.input), *captured_names(node))))
        for found in nodes
    ]
    final = {value.name for value in graph.output}
    for number, part in enumerate(segments(plan)):
        inside = set(part.operators)
        made = [name for v in part.operators for node in nodes[v].all for name in node.output if name]
        wanted = list(dict.fromkeys(name for v in part.operators for name in reads[v] if name not in made))
        outside = {name for v in range(len(nodes)) if v not in inside for name in reads[v]} | final
        inputs = [name for name in wanted if name not in constants]
        # A part that nobody reads still needs an output to be a graph.
        outputs = [name for name in made if name in outside] or made

        def value(name: str) -> onnx.ValueInfoProto:
            return declared[name] if name in declared else _value_info(name, tensors)

        piece = _without_graph(proto)
        piece.graph.name = f"{graph.name or plan.model}.part{number}"
        piece.graph.node.extend(node for v in part.operators for node in nodes[v].all)
        piece.graph.input.extend(value(name) for name in inputs)
        piece.graph.output.extend(value(name) for name in outputs)
        for name in wanted:
            item = constants.get(name)
            if isinstance(item, onnx.TensorProto):
                piece.graph.initializer.append(item)
            elif item is not None:
                piece.graph.sparse_initializer.append(item)
        operators = [plan.operators[v] for v in part.operators]
        entry = {
            "file": f"part{number:03d}_{_file_word(part.place)}.onnx",
            "place": part.place,
            "operators": [item.name for item in operators],
            "inputs": inputs,
            "outputs": outputs,
            "crossbars": sum(item.crossbars for item in operators),
            "start_ns": min(item.start_ns for item in operators),
            "finish_ns": max(item.finish_ns for item in operators),
        }
        yield piece, entry


def _constants(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto | onnx.SparseTensorProto]:
    """Return the initializers of a graph by name."""
    return {item.name: item for item in graph.initializer} | {
        item.values.name: item for item in graph.sparse_initializer
    }


def _value_info(name: str, tensors: Mapping[str, Tensor]) -> onnx.ValueInfoProto:
    from onnx import helper

    from cimplan.graph.nodes import dtype_code

    tensor = tensors[name]
    return helper.make_tensor_value_info(name, dtype_code(tensor.dtype), tensor.shape)


def _file_word(place: str) -> str:
    """Return a place as a part of a file name."""
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in place)


def _save(proto: onnx.ModelProto, path: Path, weights: Path) -> None:
    """Write a model in one piece, its weights from the file of a folder, through which they pass unread.

    Raises
    ------
    InputError
        If it is larger than an ONNX file in one piece can be.
    """
    whole, data = _in_one_piece(proto, weights)
    if whole.length > _SIZE_LIMIT_BYTES:
        raise InputError(
            "models above 2 GB cannot be written as annotated ONNX",
            where=str(path),
            why=f"it would hold {format_size(whole.length)}",
            fix="Write parts (--parts), each with the weights of its own operators only",
        )
    with replacing(path) as temporary, data.open("rb") as stream, temporary.open("wb") as out:
        for chunk in whole.chunks(stream):
            out.write(chunk)


def _in_one_piece(proto: onnx.ModelProto, weights: Path) -> tuple[Edited, Path]:
    """Return a model as an edit of the file that holds its large weights, and that file.

    A message may be written in pieces: what is repeated, such as the initializers, adds up. The protobuf library would
    hold the weights several times over.
    """
    import onnx
    from onnx.external_data_helper import load_external_data_for_model, uses_external_data

    beside = [tensor for tensor in proto.graph.initializer if uses_external_data(tensor)]
    graph = onnx.GraphProto()
    for field, content in proto.graph.ListFields():
        if field.name == "initializer":
            graph.initializer.extend(tensor for tensor in content if not uses_external_data(tensor))
        elif field.is_repeated:
            getattr(graph, field.name).extend(content)
        else:
            setattr(graph, field.name, content)
    rest = _without_graph(proto)
    rest.graph.CopyFrom(graph)
    # The weights of bodies are small beside those of the network itself.
    load_external_data_for_model(rest, str(weights))
    graph_bytes = Edited()
    graph_bytes.add(rest.graph.SerializeToString())
    locations = set()
    for tensor in beside:
        place = {entry.key: entry.value for entry in tensor.external_data}
        locations.add(place["location"])
        head = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        raw = Edited()
        raw.add(head.SerializeToString())
        raw.add(field_start(onnx.TensorProto.RAW_DATA_FIELD_NUMBER, int(place["length"])))
        raw.keep(int(place.get("offset", "0")), int(place["length"]))
        graph_bytes.add(field_start(onnx.GraphProto.INITIALIZER_FIELD_NUMBER, raw.length))
        graph_bytes.extend(raw)
    if len(locations) > 1:
        raise InternalError("ONNX Runtime saved weights in several files", where=proto.graph.name)
    whole = Edited()
    whole.add(_without_graph(proto).SerializeToString())
    whole.add(field_start(onnx.ModelProto.GRAPH_FIELD_NUMBER, graph_bytes.length))
    whole.extend(graph_bytes)
    return whole, weights / (locations.pop() if locations else _SAVED)


def _without_graph(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of what a model says apart from its graph."""
    import onnx

    copy = onnx.ModelProto()
    for field, content in proto.ListFields():
        if field.name == "graph":
            continue
        if field.is_repeated:
            getattr(copy, field.name).extend(content)
        else:
            setattr(copy, field.name, content)
    return copy
