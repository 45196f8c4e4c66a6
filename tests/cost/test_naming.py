"""Names stay those of the model, whatever ONNX Runtime appends to them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cimplan.cost.naming import with_stable_names
from cimplan.graph.operators import Operator, OperatorGraph


def names_of(*names: str) -> list[str]:
    operators = tuple(Operator(name, "Conv", "", (), ()) for name in names)
    return [op.name for op in with_stable_names(OperatorGraph("net", operators, {}, (), ())).operators]


def test_counters_and_layout_marks_are_taken_off():
    assert names_of("stem_token_7", "head_nchwc", "pool_nchwc_token_12", "plain") == ["stem", "head", "pool", "plain"]


def test_the_counters_of_a_session_do_not_matter():
    assert names_of("a_token_1", "b_token_4") == names_of("a_token_3", "b_token_2")


def test_equal_names_are_numbered_in_the_order_of_the_graph():
    # Which of a series carries no counter changes from session to session too.
    assert names_of("stem_token_7", "stem") == names_of("stem", "stem_token_9") == ["stem", "stem_2"]
    assert names_of("stem_token_7", "stem_token_8", "stem_2") == ["stem", "stem_3", "stem_2"]


def test_a_name_of_marks_only_becomes_the_type():
    assert names_of("_token_3") == ["Conv"]


@given(
    st.lists(
        st.text(alphabet="ab_1", max_size=3).map(lambda t: t + "x")
        | st.sampled_from(["a_token_1", "a_nchwc", "a", "a_1", "a_token_2"]),
        unique=True,
    )
)
def test_names_stay_unique(names):
    assert len(set(names_of(*names))) == len(names)
