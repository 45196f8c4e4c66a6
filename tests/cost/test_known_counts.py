"""Crossbars of whole networks on the paper's accelerator, as its evidence has them."""

from __future__ import annotations

import pytest

from cimplan import hardware, zoo
from cimplan.cost.crossbar import crossbars_needed, unsupported_reason
from cimplan.graph.read import graph_from_model

KNOWN = {"resnet18": 201, "resnet50": 422, "mobilenet_v2": 142, "yolov5n": 95}


def crossbars(name, accelerator):
    graph = graph_from_model(zoo.build(name))
    offloaded = [op for op in graph.operators if not unsupported_reason(op, accelerator)]
    return sum(crossbars_needed(op.work, accelerator) for op in offloaded)


@pytest.mark.parametrize("name", KNOWN)
def test_equation_one_gives_the_known_counts(name):
    assert crossbars(name, hardware.load("rram-256").accelerator) == KNOWN[name]
    assert crossbars(name, hardware.load("rram-256-arm").accelerator) == KNOWN[name]


def test_depthwise_networks_need_more_where_groups_have_rows_of_their_own():
    base = hardware.load("rram-256")
    packed = hardware.with_overrides(base, accelerator={"group_packing": "block_diagonal"}).accelerator
    # 106 for all else; 28 groups of nine rows in a crossbar for the depthwise convolutions
    depthwise = [32, 96, 144, 144, 192, 192, 192, 384, 384, 384, 384, 576, 576, 576, 960, 960, 960]
    assert crossbars("mobilenet_v2", packed) == 106 + sum(-(-channels // 28) for channels in depthwise) == 369
    assert crossbars("resnet18", packed) == KNOWN["resnet18"]


def test_narrower_weights_and_smaller_crossbars_need_more():
    plain = crossbars("resnet18", hardware.load("rram-256").accelerator)
    assert crossbars("resnet18", hardware.load("rram-512").accelerator) < plain
    assert crossbars("resnet18", hardware.load("rram-256-sliced").accelerator) > 3 * plain
