"""The published evaluation, computed from estimated profiles that are kept with the tests."""

from __future__ import annotations

import itertools
import pickle

import pytest

from cimplan.errors import InputError
from cimplan.explore import klein2026
from cimplan.explore.klein2026 import PARTS, parse_parts, reproduce, shapes_needed
from cimplan.explore.published import BUDGETS, LATENCIES_NS, RESNET18_SPEEDUPS, SPEEDUPS_50NS, TABLE_ONE
from cimplan.explore.reproduction_hosts import find_hosts
from reference_profiles import MODELS, reproduction, unpack


@pytest.fixture(scope="module")
def result():
    return reproduction()


def test_sizes_of_table_one_are_the_published_ones(result):
    (host,) = result.hosts
    for model in MODELS:
        size, row = result.sizes[host.key, model], TABLE_ONE[model]
        assert (size.operators, size.decision_variables, size.constraints) == (
            row.operators,
            row.decision_variables,
            row.constraints,
        )


def test_all_instances_are_there_and_proven(result):
    assert len(result.instances) == len(MODELS) * len(BUDGETS) * len(LATENCIES_NS)
    assert {item.status for item in result.instances} == {"optimal"}
    for model in MODELS:
        statistics = result.statistics(result.hosts[0].key, model)
        assert (statistics.instances, statistics.optimal, statistics.mean_gap) == (16, 16, 0.0)
        assert 0 < statistics.mean_s <= statistics.most_s


def test_more_crossbars_and_faster_mvms_never_cost(result):
    (host,) = result.hosts
    for model in MODELS:
        for latency, (few, many) in itertools.product(LATENCIES_NS, itertools.pairwise(BUDGETS)):
            assert result.speedup(host.key, model, latency, few) <= result.speedup(host.key, model, latency, many)
        for budget, (fast, slow) in itertools.product(BUDGETS, itertools.pairwise(LATENCIES_NS)):
            assert result.speedup(host.key, model, fast, budget) >= result.speedup(host.key, model, slow, budget)


def test_optima_do_not_move(result):
    """Golden figures: the optimum is a fact of the costs, whatever the method."""
    (host,) = result.hosts
    found = {model: [round(result.speedup(host.key, model, 50.0, budget), 2) for budget in BUDGETS] for model in MODELS}
    assert found == {
        "resnet18": [1.78, 2.88, 5.19, 31.64],
        "resnet50": [1.38, 1.71, 2.37, 4.9],
        "mobilenet_v2": [1.65, 2.34, 4.9, 5.54],
        "yolov5n": [1.59, 2.2, 3.44, 3.44],
    }
    assert result.instance(host.key, "yolov5n", 50.0, 100).operators == 251


def test_the_parts_of_the_latency_add_up(result):
    for item in result.instances:
        assert item.share.total_ns == item.makespan_ns
        assert item.share.idle_ns == 0
        assert item.crossbars_used <= item.crossbars
        assert (item.operators_on_cim == 0) == (item.share.cim_ns + item.share.both_ns == 0)


def test_the_schedule_is_a_checked_plan(result):
    (plan,) = result.plans.values()
    assert plan.checked
    assert plan.model == "yolov5n"
    assert plan.makespan_ns == result.instance(result.hosts[0].key, "yolov5n", 50.0, 100).makespan_ns


def test_curves_agree_with_the_instances(result):
    for (host, model), steps in result.curves.items():
        for budget in BUDGETS if steps else ():
            reached = [value for crossbars, value in steps if crossbars <= budget][-1]
            assert reached == pytest.approx(result.speedup(host, model, 50.0, budget), rel=1e-12)


def test_a_result_survives_pickling(result):
    assert pickle.loads(pickle.dumps(result)).instances == result.instances


def test_parts_need_only_their_instances():
    assert len(shapes_needed(PARTS)) == 64
    assert len(shapes_needed(["figure3"])) == 16
    assert {latency for _, latency, _ in shapes_needed(["figure4"])} == {50.0}
    assert {model for model, _, _ in shapes_needed(["figure5"])} == {"yolov5n"}
    assert shapes_needed(["figure3", "figure4"])[:4] == tuple(("resnet18", 50.0, budget) for budget in BUDGETS)


def test_parts_come_in_the_order_of_the_paper():
    assert parse_parts([]) == PARTS
    assert parse_parts(["figure5", "table1"]) == ("table1", "figure5")
    with pytest.raises(InputError, match="figure6"):
        parse_parts(["figure6"])


def test_figures_and_published_figures_overlap():
    """Figure 4 shows the first row of Figure 3 again; the paper's numbers agree with themselves."""
    for host, figure3 in RESNET18_SPEEDUPS.items():
        for budget in BUDGETS:
            assert figure3[budget, 50.0] == SPEEDUPS_50NS[host, "resnet18"][budget]


def test_a_host_without_all_networks_gives_what_it_can(tmp_path):
    hosts = find_hosts([str(unpack(tmp_path, "resnet18"))], MODELS)
    result = reproduce(hosts, ["table1", "figure3", "figure4"])
    assert {item.model for item in result.instances} == {"resnet18"}
    assert result.models("figure4") == ("resnet18",)
    assert result.statistics(hosts[0].key, "yolov5n") is None


def test_a_part_without_its_network_is_refused(tmp_path):
    hosts = find_hosts([str(unpack(tmp_path, "resnet18"))], MODELS)
    with pytest.raises(InputError, match="YOLOv5n"):
        reproduce(hosts, ["figure5"])


def test_progress_names_host_network_latency_and_budget(tmp_path):
    told: list[str] = []
    hosts = find_hosts([str(unpack(tmp_path, "resnet18"))], MODELS)
    reproduce(hosts, [klein2026.FIGURE_3], say=told.append)
    assert f"{tmp_path.name}: ResNet-18, 500 ns, 100 crossbars" in told
