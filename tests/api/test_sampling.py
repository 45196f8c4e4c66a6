"""What the noise of a profile means for a plan: forged profiles whose spread is known."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

import reference_profiles
from cimplan.api.partitioning import partition, solve
from cimplan.api.sampling import SAMPLES, sample
from cimplan.cost.build import build_problem
from cimplan.cost.profile_file import HostProfile, Measurement, Spread
from cimplan.errors import InputError
from cimplan.hardware import load as load_hardware
from cimplan.partition.methods import solve as solve_problem
from cimplan.plan.plan import Plan
from cimplan.plan.summary import summary


def spread(time_ns: float, share: float) -> Spread:
    """Return a spread whose quartiles are so far from the median."""
    lower, upper = time_ns * (1 - share), time_ns * (1 + share)
    return Spread(
        runs=20,
        median_ns=time_ns,
        lower_quartile_ns=lower,
        upper_quartile_ns=upper,
        least_ns=max(time_ns * (1 - 3 * share), 0.0),
        fastest_quarter_ns=lower,
        most_ns=time_ns * (1 + 5 * share),
    )


def measured(common: float, own: float = 0.0, *, disturbed: str = "") -> HostProfile:
    """Return ResNet-18 as if measured, with this spread of whole runs and of each operator."""
    with tempfile.TemporaryDirectory() as folder:
        estimated = reference_profiles.profile("resnet18", Path(folder))
    times = {
        name: timing.model_copy(
            update={"kind": "measured" if timing.host_ns else timing.kind, "raw": spread(max(timing.host_ns, 1.0), own)}
        )
        for name, timing in estimated.times.items()
    }
    total = estimated.total_ns
    measurement = Measurement(
        runs=20,
        dropped_runs=2,
        seed=0,
        inputs="random",
        profiled=spread(total, common),
        unprofiled=spread(total, common),
        original=None,
        scale=1.0,
        resolution_ns=0.0,
        disturbed=disturbed,
    )
    return estimated.model_copy(update={"origin": "measured", "times": times, "measurement": measurement})


def plan_on(profile: HostProfile, **options: object) -> Plan:
    return partition(None, "rram-256", profile, crossbars=50, **options)


def test_a_profile_without_spread_gives_ranges_of_one_value():
    plan = plan_on(measured(0.0))
    assert plan.host_only_ns_quartiles == (plan.host_only_ns, plan.host_only_ns)
    assert plan.speedup_range == pytest.approx((plan.speedup, plan.speedup))
    assert plan.placement_robust_share == 1


def test_what_is_common_to_all_operators_is_not_averaged_away():
    common, own = plan_on(measured(0.1)), plan_on(measured(0.0, 0.1))
    lower, upper = (quartile / common.host_only_ns for quartile in common.host_only_ns_quartiles)
    assert 0.8 < lower < 0.95
    assert 1.05 < upper < 1.2

    def width(plan: Plan) -> float:
        return (plan.host_only_ns_quartiles[1] - plan.host_only_ns_quartiles[0]) / plan.host_only_ns

    assert 0 < width(own) < width(common) / 2
    assert own.speedup_range[0] < own.speedup < own.speedup_range[1]


def test_a_wider_spread_gives_a_wider_range_of_the_speed_up():
    widths = [high - low for low, high in (plan_on(measured(share)).speedup_range for share in (0.01, 0.05, 0.2))]
    assert widths == sorted(widths)
    assert widths[0] < widths[2] / 4


def test_the_same_input_gives_the_same_answer_and_the_seed_another_sample():
    profile = measured(0.1, 0.1)
    first, again, other = plan_on(profile), plan_on(profile), plan_on(profile, seed=1)
    assert first.statistics["samples"] == SAMPLES
    assert first.statistics["samples_solved"] > 0
    for key in ("host_only_ns_quartiles", "speedup_range", "placement_robust_share"):
        assert getattr(first, key) == getattr(again, key)
    assert first.speedup_range != other.speedup_range


def test_a_placement_that_is_not_the_best_is_not_robust():
    profile = measured(0.02, 0.02)
    assert plan_on(profile, method="exact").placement_robust_share > 0.5
    assert plan_on(profile, method="cpu-only").placement_robust_share == 0
    fixed = plan_on(profile, fix={plan_on(profile).operators[1].name: "host"})
    assert fixed.placement_robust_share > 0.5  # best under the same fix


def test_the_samples_keep_within_a_twentieth_of_the_limit():
    costed = build_problem(measured(0.1), load_hardware("rram-256"))
    solution = solve_problem(costed.problem)
    few = sample(costed, costed.problem, solution, time_limit_s=0.2)
    assert few is None or few.samples <= SAMPLES
    assert few is None or few.solved < sample(costed, costed.problem, solution).solved
    assert sample(costed, costed.problem, solution, time_limit_s=1e-6) is None
    assert sample(costed, costed.problem, solution, stopped=lambda: True) is None


def test_estimated_times_have_no_spread():
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_on(reference_profiles.profile("resnet18", Path(folder)))
    values = plan.to_json()
    assert values["host_only_ns_quartiles"] is values["speedup_range"] is values["placement_robust_share"] is None
    assert values["profile_disturbed"] is False
    assert "how they spread is not known" in dict(summary(plan))["times"]


def test_the_summary_tells_spread_disturbance_and_another_host():
    plan = plan_on(measured(0.1, disturbed="runs waited for a processor for 50 % of their time"))
    facts = dict(summary(plan))
    assert plan.to_json()["profile_disturbed"] is True
    assert "quartiles" in facts["host only"]
    assert "noise of the host" in facts["speed-up"]
    assert "solved again" in facts["placement"]
    assert facts["disturbed"].startswith("runs waited for a processor")
    assert "ARM Cortex-A72" in facts["other host"]
    assert "x86 host" in facts["other host"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("speedup_range", [0.1, 0.2]), ("host_only_ns_quartiles", [1.0, 2.0]), ("profile_disturbed", True)],
)
def test_a_file_whose_spread_does_not_hold_its_figure_is_refused(field, value):
    values = plan_on(measured(0.1)).to_json()
    values[field] = value
    with pytest.raises(InputError, match="does not follow") as caught:
        Plan.from_json(values, "plan.json")
    assert field in str(caught.value)


def test_a_file_from_before_the_spread_still_opens():
    values = plan_on(measured(0.1)).to_json()
    for key in ("host_only_ns_quartiles", "speedup_range", "placement_robust_share", "profile_disturbed"):
        del values[key]
    for key in ("date", "disturbed", "mismatch"):
        del values["profile"][key]
    assert Plan.from_json(values, "plan.json").speedup_range is None


def test_a_solve_that_found_nothing_to_offload_has_a_range_of_one():
    costed = build_problem(measured(0.1), load_hardware("rram-256"))
    plan = solve(costed, method="cpu-only")
    assert plan.speedup_range == (1, 1)
