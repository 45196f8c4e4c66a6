"""Names of reference networks, their parameters, and what is said about wrong ones."""

from __future__ import annotations

import subprocess
import sys

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cimplan.errors import InputError
from cimplan.zoo import ZOO, build, describe, names
from cimplan.zoo.catalogue import ZooEntry
from cimplan.zoo.reference import ZooReference, parse


def test_catalogue_names_the_reference_models() -> None:
    assert names() == (
        *("resnet18", "resnet34", "resnet50", "resnet101", "mobilenet_v2", "vgg16", "yolov5n"),
        *("bert_large", "llama2_7b", "opt_6_7b", "opt_13b"),
    )


@pytest.mark.parametrize("entry", ZOO.values(), ids=lambda entry: entry.name)
def test_facts_agree_with_the_network(entry: ZooEntry) -> None:
    assert str(parse(entry.example)) == entry.example
    params = entry.check({"batch": 3})
    network = entry.network(params)
    assert network.parameters == entry.weights
    declared = next(value for value in network.skeleton().graph.input if value.name == entry.input_name)
    symbols = [dim if isinstance(dim, int) else params[dim] for dim in entry.input_shape]
    assert [dim.dim_value for dim in declared.type.tensor_type.shape.dim] == symbols
    assert (network.seed is None) == entry.weightless
    assert entry.source
    assert "\n" not in entry.description


def test_reference_fills_in_defaults_and_prints_sorted() -> None:
    reference = parse("zoo:opt_13b?seq=64&phase=decode&batch=8&lm_head=FALSE")
    assert reference == ZooReference(
        "opt_13b", {"batch": 8, "layers": 40, "lm_head": False, "phase": "decode", "seq": 64}
    )
    # seq=64 is the default.
    assert str(reference) == "opt_13b?batch=8&lm_head=false&phase=decode"
    assert str(ZooReference("opt_13b", {"seq": 1, "batch": 2})) == "opt_13b?batch=2&seq=1"


def test_equal_networks_have_one_canonical_form() -> None:
    texts = ["resnet18", "resnet18?", "resnet18?batch=1", "zoo:resnet18?seed=0&batch=1", "resnet18?batch=01"]
    assert {str(parse(text)) for text in texts} == {"resnet18"}
    assert len({parse(text) for text in texts}) == 1


@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_printing_and_parsing_are_inverse(data: st.DataObject) -> None:
    entry = describe(data.draw(st.sampled_from(names())))
    params = {}
    for parameter in entry.params:
        if isinstance(parameter.default, bool):
            values: st.SearchStrategy[object] = st.booleans()
        elif isinstance(parameter.default, int):
            values = st.integers(parameter.lowest, parameter.highest)
        else:
            values = st.sampled_from(parameter.choices)
        if data.draw(st.booleans()):
            params[parameter.name] = data.draw(values)
    reference = ZooReference(entry.name, entry.check(params))
    assert parse(str(reference)) == reference


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no reference network ''.*Known names"),
        ("resnet51", "no reference network 'resnet51'.*Did you mean 'resnet50'"),
        ("resnet18?bath=2", "resnet18 has no parameter 'bath'.*Did you mean 'batch'"),
        ("resnet18?seq=2", "resnet18 has no parameter 'seq'"),
        ("resnet18?batch", "'batch' is not a parameter.*resnet18.batch=4"),
        ("resnet18?batch=2&", "'' is not a parameter"),
        ("resnet18?batch=2&batch=2", "'batch' is given twice"),
        ("resnet18?batch=two", "batch=two is not possible.*whole number from 1 to 65,536"),
        ("resnet18?batch=", "batch= is not possible"),
        ("resnet18?batch=0", "batch=0 is not possible"),
        ("resnet18?batch=-1", "batch=-1 is not possible"),
        ("resnet18?batch=1.5", "batch=1.5 is not possible"),
        ("resnet18?batch=65537", "batch=65537 is not possible"),
        ("resnet18?batch=" + "9" * 5000, "is not possible"),
        ("resnet18?batch=1_0", "batch=1_0 is not possible"),
        ("resnet18?batch=٣", "is not possible"),
        ("opt_13b?seq=1000001", "seq=1000001 is not possible.*1 to 1,000,000"),
        ("opt_13b?phase=train", "phase=train is not possible.*prefill or decode"),
        ("opt_13b?lm_head=yes", "lm_head=yes is not possible.*true or false"),
        ("opt_13b?layers=0", "layers=0 is not possible"),
        ("bert_large?phase=decode", "phase=decode is not possible.*encoder"),
        ("bert_large?lm_head=true", "bert_large has no parameter 'lm_head'"),
    ],
)
def test_wrong_references_are_explained(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse(text)


@pytest.mark.parametrize("value", [True, 1.0, "1", None, 0])
def test_build_refuses_values_of_another_type(value: object) -> None:
    with pytest.raises(InputError, match="is not possible"):
        build("resnet18", batch=value)  # type: ignore[arg-type]


def test_largest_sizes_still_have_shapes() -> None:
    model = build("opt_13b", seq=1_000_000, batch=65_536, layers=1)
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    dims = [dim.dim_value for value in inferred.graph.value_info for dim in value.type.tensor_type.shape.dim]
    assert min(dims) > 0
    assert max(dims) == 1_000_000


def test_catalogue_and_references_load_without_onnx() -> None:
    code = "import sys, cimplan.zoo.cache; sys.exit('onnx' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
