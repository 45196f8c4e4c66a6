"""What the latency goes to, against counting tick by tick."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cimplan.cost.problem import CIM, HOST, Dependency, Option, Problem
from cimplan.explore.latency_share import latency_share
from cimplan.plan.schedule import Schedule


def problem(options, edges=(), tick_ns=1.0):
    names = tuple(f"v{index}" for index in range(len(options)))
    return Problem(names, tuple((option,) for option in options), tuple(edges), 100, tick_ns=tick_ns)


def test_each_moment_counts_once():
    made = problem(
        [Option(HOST, 4), Option(CIM, 5, 1), Option(HOST, 3)], [Dependency(0, 1, 2), Dependency(1, 2, 1)], tick_ns=10.0
    )
    share = latency_share(made, Schedule((0, 0, 0), (0, 6, 12)))
    assert (share.host_ns, share.both_ns, share.cim_ns, share.transfer_ns, share.idle_ns) == (70, 0, 50, 30, 0)
    assert share.total_ns == 150


def test_overlap_waiting_and_transfers_beside_work():
    made = problem([Option(HOST, 4), Option(CIM, 6, 1), Option(HOST, 2)], [Dependency(0, 2, 9)])
    share = latency_share(made, Schedule((0, 0, 0), (0, 2, 11)))
    # 0-2 host, 2-4 both, 4-8 crossbars, 8-11 nothing (both ends of the edge are on the host), 11-13 host
    assert (share.host_ns, share.both_ns, share.cim_ns, share.transfer_ns, share.idle_ns) == (4, 2, 4, 0, 3)


def test_an_empty_network_takes_no_time():
    assert latency_share(problem([]), Schedule((), ())).total_ns == 0


OPERATORS = st.lists(
    st.tuples(st.sampled_from([HOST, CIM]), st.integers(0, 6), st.integers(0, 12)), min_size=1, max_size=6
)


@settings(deadline=None)
@given(OPERATORS, st.integers(0, 5))
def test_the_parts_equal_a_count_of_ticks(operators, transfer):
    made = problem(
        [Option(place, duration) for place, duration, _ in operators],
        [Dependency(index, index + 1, transfer) for index in range(len(operators) - 1)],
    )
    schedule = Schedule((0,) * len(operators), tuple(start for _, _, start in operators))
    share = latency_share(made, schedule)
    counts = dict.fromkeys(("host", "both", "cim", "transfer", "idle"), 0)
    finish = [start + duration for _, duration, start in operators]
    for tick in range(max(finish)):
        busy = {place for (place, _, start), end in zip(operators, finish, strict=True) if start <= tick < end}
        moving = any(
            operators[index][0] != operators[index + 1][0] and finish[index] <= tick < finish[index] + transfer
            for index in range(len(operators) - 1)
        )
        kind = "both" if len(busy) == 2 else {HOST: "host", CIM: "cim"}[busy.pop()] if busy else ""
        counts[kind or ("transfer" if moving else "idle")] += 1
    assert counts == {
        "host": share.host_ns,
        "both": share.both_ns,
        "cim": share.cim_ns,
        "transfer": share.transfer_ns,
        "idle": share.idle_ns,
    }
