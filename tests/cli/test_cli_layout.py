"""From the command line: float networks by their own channels, and what every summary says of inputs and outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from blocked_networks import is_blocked, padded_to, saved
from cimplan.cost.profile_file import load, record_of


def test_a_float_network_needs_the_same_crossbars_on_hosts_of_two_block_sizes(cimplan, tmp_path: Path) -> None:
    for name in ("twenty channels", "depthwise"):
        model, profile = saved(tmp_path, name), tmp_path / "host.json"
        assert cimplan("profile", model, "--estimate", "cortex-a72", "-o", profile).code == 0
        measured = load(profile)
        if not is_blocked(measured.graph()):
            pytest.skip("this ONNX Runtime changes no layouts here")
        plans = []
        for block in (8, 16):
            forged = tmp_path / f"host{block}.json"
            measured.model_copy(update={"graph_record": record_of(padded_to(measured.graph(), block))}).save(forged)
            run = cimplan("partition", model, "--profile", forged, "--hardware", "isaac-like", "--json")
            assert run.code == 0, run.err
            plans.append(run.json)
        for key in ("crossbars_used", "makespan_ns", "host_only_ns", "counts", "operators", "dependencies"):
            assert plans[0][key] == plans[1][key]
        needed = cimplan("inspect", model, "--hardware", "isaac-like", "--json").json["crossbars_for_everything"]
        offered = [item["options"][-1]["crossbars"] for item in plans[0]["operators"]]
        assert sum(offered) == needed


def test_every_summary_names_the_rule_for_the_networks_inputs_and_outputs(cimplan, tmp_path: Path) -> None:
    model, profile = saved(tmp_path, "twenty channels"), tmp_path / "host.json"
    assert cimplan("profile", model, "--estimate", "cortex-a72", "-o", profile).code == 0
    silent = tmp_path / "silent.yaml"
    preset = cimplan("hardware", "show", "rram-256").out
    silent.write_text("".join(line for line in preset.splitlines(keepends=True) if "network_io" not in line))
    for hardware, rule in (("rram-256", "free"), (silent, "charged"), ("puma-like", "charged")):
        asked = ("--profile", profile, "--hardware", hardware)
        plan = tmp_path / "plan.json"
        text = cimplan("partition", model, *asked, "-o", plan).out
        assert f"network i/o  {rule}: " in text
        assert json.loads(plan.read_text())["network_io"] == rule
        assert cimplan("check", plan).code == 0
        compared = ("compare", model, *asked, "--methods", "greedy")
        assert f"network i/o: {rule}: " in cimplan(*compared).out
        assert cimplan(*compared, "--json").json["network_io"] == rule


def test_inspect_and_partition_say_that_float_weights_are_rounded_and_what_quantises_them(cimplan, tmp_path) -> None:
    model = saved(tmp_path, "twenty channels")
    line = "3 operators have float32 weights, crossbars hold 8 bits: costed as if quantised"
    command = "`cimplan quantize MODEL -o INT8.onnx` quantises it"
    for run in (
        cimplan("inspect", model),
        cimplan("partition", model, "--hardware", "rram-256-arm"),
    ):
        (remark,) = [text for text in run.out.splitlines() if text.startswith("  remark")]
        assert line in remark and command in remark
    int8 = tmp_path / "int8.onnx"
    assert cimplan("quantize", model, "-o", int8).code == 0
    assert "remark" not in cimplan("inspect", int8).out
