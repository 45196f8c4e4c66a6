"""Hosts as a user names them, and the ways to get them wrong."""

from __future__ import annotations

import json

import pytest

from cimplan.errors import InputError
from cimplan.explore.reproduction_hosts import find_hosts
from reference_profiles import MODELS, unpack


def rewrite(path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def test_a_folder_holds_one_profile_per_network(tmp_path):
    (host,) = find_hosts([str(unpack(tmp_path))], MODELS)
    assert tuple(host.profiles) == MODELS
    assert host.published == "arm"
    assert host.hardware.name == "rram-256-arm"
    assert (host.key, host.origin) == (tmp_path.name, "estimated")
    assert "Cortex-A72" in host.title


def test_a_file_is_one_network(tmp_path):
    (host,) = find_hosts([str(unpack(tmp_path, "yolov5n") / "yolov5n.json")], MODELS)
    assert tuple(host.profiles) == ("yolov5n",)


def test_the_architecture_decides_the_bus(tmp_path):
    unpack(tmp_path, "resnet18")
    rewrite(tmp_path / "resnet18.json", lambda value: value["machine"].update(architecture="x86_64"))
    (host,) = find_hosts([str(tmp_path)], MODELS)
    assert (host.published, host.hardware.bus.bandwidth_gbps) == ("x86", 20.48)


def test_networks_that_are_not_needed_are_left_out(tmp_path):
    (host,) = find_hosts([str(unpack(tmp_path))], ["resnet18"])
    assert tuple(host.profiles) == ("resnet18",)


def test_other_networks_in_a_folder_are_passed_over(tmp_path):
    unpack(tmp_path, "resnet18", "resnet50")
    rewrite(tmp_path / "resnet50.json", lambda value: value["model"].update(name="mine"))
    (host,) = find_hosts([str(tmp_path)], MODELS)
    assert tuple(host.profiles) == ("resnet18",)


@pytest.mark.parametrize("text", ["mesured", "no/such/file.json"])
def test_an_unknown_host_is_refused(text):
    with pytest.raises(InputError, match="measured"):
        find_hosts([text], MODELS)


def test_a_network_that_is_not_of_the_paper_is_refused(tmp_path):
    unpack(tmp_path, "resnet18")
    rewrite(tmp_path / "resnet18.json", lambda value: value["model"].update(name="mine.onnx"))
    with pytest.raises(InputError, match="not a network of the paper"):
        find_hosts([str(tmp_path / "resnet18.json")], MODELS)


def test_a_profile_under_a_wrong_name_is_refused(tmp_path):
    unpack(tmp_path, "resnet18")
    rewrite(tmp_path / "resnet18.json", lambda value: value["model"].update(name="resnet50"))
    with pytest.raises(InputError, match="201 crossbars, those of ResNet-50 422"):
        find_hosts([str(tmp_path)], MODELS)


def test_two_profiles_of_one_network_are_refused(tmp_path):
    unpack(tmp_path, "resnet18")
    (tmp_path / "again.json").write_bytes((tmp_path / "resnet18.json").read_bytes())
    with pytest.raises(InputError, match="two profiles of resnet18"):
        find_hosts([str(tmp_path)], MODELS)


def test_profiles_of_two_machines_are_refused(tmp_path):
    unpack(tmp_path, "resnet18", "resnet50")
    rewrite(tmp_path / "resnet50.json", lambda value: value["machine"].update(cpu="another"))
    with pytest.raises(InputError, match="different machines"):
        find_hosts([str(tmp_path)], MODELS)


def test_a_folder_without_profiles_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"no profile \(\*\.json\)"):
        find_hosts([str(tmp_path)], MODELS)


def test_a_profile_of_another_network_than_needed_is_refused(tmp_path):
    with pytest.raises(InputError, match="needed: yolov5n"):
        find_hosts([str(unpack(tmp_path, "resnet18"))], ["yolov5n"])


def test_two_hosts_of_one_name_are_refused(tmp_path):
    for parent in ("a", "b"):
        folder = tmp_path / parent / "board"
        folder.mkdir(parents=True)
        unpack(folder, "resnet18")
    with pytest.raises(InputError, match="two hosts"):
        find_hosts([str(tmp_path / "a" / "board"), str(tmp_path / "b" / "board")], MODELS)


def test_a_file_that_is_no_profile_is_refused(tmp_path):
    (tmp_path / "resnet18.json").write_text("{}")
    with pytest.raises(InputError, match="not a host profile"):
        find_hosts([str(tmp_path)], MODELS)
