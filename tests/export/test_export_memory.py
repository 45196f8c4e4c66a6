"""Large weights: how often planning and exporting hold them, and where an annotated node runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from cimplan.export.onnx import LAYER_ANNOTATION, LAYER_ASSIGNMENT, write_onnx, write_parts
from cimplan.files import read_json
from cimplan.plan.plan import Plan

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux")
LAYERS, SIZE = 6, 2048
WEIGHT_BYTES = LAYERS * SIZE * SIZE * 4

# `ru_maxrss` would count what the process was before it became this program.
_PEAK = """
import re, sys
from pathlib import Path
sys.argv = ["cimplan", *sys.argv[1:]]
from cimplan.cli import main
try:
    main()
finally:
    found = re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())
    sys.stderr.write(f"peak {int(found[1]) * 1024}")
"""


def network(size: int) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    nodes, weights = [], []
    for layer in range(LAYERS):
        weights.append(numpy_helper.from_array(rng.standard_normal((size, size), np.float32), f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [f"x{layer}", f"w{layer}"], [f"h{layer}"], name=f"product{layer}"))
        nodes.append(helper.make_node("Tanh", [f"h{layer}"], [f"x{layer + 1}"], name=f"act{layer}"))
    graph = helper.make_graph(
        nodes,
        "large",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, [1, size])],
        [helper.make_tensor_value_info(f"x{LAYERS}", TensorProto.FLOAT, [1, size])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def peak_bytes(folder: Path, *words: object) -> int:
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, *map(str, words)],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        timeout=300,
    )
    return int(done.stderr.rpartition("peak ")[2])


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    """A folder with a small and a large model and their plans, and the peak memory of planning each."""
    folder = tmp_path_factory.mktemp("large")
    peaks = {}
    for name, size in (("small", 32), ("large", SIZE)):
        onnx.save(network(size), folder / f"{name}.onnx")
        peaks[name] = peak_bytes(
            folder, "partition", f"{name}.onnx", "--measure-for", "0.1s", "--crossbars", 100_000, "-o", f"{name}.json"
        )
    return folder, peaks


def test_planning_holds_less_than_twice_the_weights(planned: tuple[Path, dict[str, int]]) -> None:
    _, peaks = planned
    assert peaks["large"] - peaks["small"] < 2 * WEIGHT_BYTES


def test_writing_parts_holds_about_twice_the_weights_at_most(planned: tuple[Path, dict[str, int]]) -> None:
    folder, _ = planned
    peaks = {
        name: peak_bytes(
            folder,
            "export",
            f"{name}.json",
            "--to",
            "onnx",
            "--model",
            f"{name}.onnx",
            "--parts",
            "-o",
            f"{name}.parts",
        )
        for name in ("small", "large")
    }
    assert peaks["large"] - peaks["small"] < 2 * WEIGHT_BYTES


def test_writing_the_whole_holds_less_than_twice_the_weights(planned: tuple[Path, dict[str, int]]) -> None:
    folder, _ = planned
    peaks = {
        name: peak_bytes(
            folder, "export", f"{name}.json", "--to", "onnx", "--model", f"{name}.onnx", "-o", f"{name}.whole.onnx"
        )
        for name in ("small", "large")
    }
    assert peaks["large"] - peaks["small"] < 2 * WEIGHT_BYTES
    onnx.checker.check_model(folder / "large.whole.onnx")
    feed = {"x0": np.linspace(-1, 1, SIZE, dtype=np.float32)[None]}
    wanted, found = (
        ort.InferenceSession(folder / name, providers=["CPUExecutionProvider"]).run(None, feed)[0]
        for name in ("large.onnx", "large.whole.onnx")
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_parts_of_a_model_whose_weights_were_laid_beside_it_compute_the_same(
    planned: tuple[Path, dict[str, int]], tmp_path: Path
) -> None:
    folder, _ = planned
    manifest, *_ = write_parts(Plan.read(folder / "large.json"), tmp_path / "parts", model=folder / "large.onnx")
    feed = {"x0": np.linspace(-1, 1, SIZE, dtype=np.float32)[None]}
    wanted = ort.InferenceSession(folder / "large.onnx", providers=["CPUExecutionProvider"]).run(None, feed)[0]
    known = dict(feed)
    for part in read_json(manifest, "manifest")["parts"]:
        session = ort.InferenceSession(tmp_path / "parts" / part["file"], providers=["CPUExecutionProvider"])
        known |= zip(
            part["outputs"],
            session.run(part["outputs"], {name: known[name] for name in part["inputs"]}),
            strict=True,
        )
    np.testing.assert_allclose(known[f"x{LAYERS}"], wanted, rtol=1e-5, atol=1e-6)


_OPEN = """
import sys
import onnxruntime as ort
options = ort.SessionOptions()
options.log_severity_level, options.log_verbosity_level = 0, 1
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
options.add_session_config_entry(sys.argv[2], sys.argv[3])
session = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
for part in session.get_provider_graph_assignment_info():
    for node in part.get_nodes():
        print("node", node.name, part.ep_name)
"""


def test_onnx_runtime_reads_the_places_of_a_plan(planned: tuple[Path, dict[str, int]], tmp_path: Path) -> None:
    folder, _ = planned
    plan = Plan.read(folder / "small.json")
    (path,) = write_onnx(plan, tmp_path / "annotated.onnx", model=folder / "small.onnx")
    places = {
        node.name: entry.value
        for node in onnx.load(path).graph.node
        for entry in node.metadata_props
        if entry.key == LAYER_ANNOTATION
    }
    assert places == plan.assignment
    done = subprocess.run(
        [sys.executable, "-c", _OPEN, str(path), *LAYER_ASSIGNMENT],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    # With the one provider of this build the rule for the host finds it, and the one for an accelerator finds none.
    assert "Parsed 2 annotation-based layering rules" in done.stderr
    assert "(cpu -> host) mapped to EP: CPUExecutionProvider" in done.stderr
    assert "(device='accelerator', annotation='cim') could not be mapped" in done.stderr
    nodes = {line.split()[1]: line.split()[2] for line in done.stdout.splitlines() if line.startswith("node ")}
    assert nodes == dict.fromkeys(places, "CPUExecutionProvider")
