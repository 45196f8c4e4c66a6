"""The transformers: published sizes, complete shapes, little memory, and the right mathematics at a small size."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from cimplan.errors import InputError
from cimplan.zoo import build, describe
from cimplan.zoo.network import is_weightless
from cimplan.zoo.transformer import ARCHITECTURES, Architecture, transformer

PUBLISHED = {
    "bert_large": 335_141_888,
    "llama2_7b": 6_738_415_616,
    "opt_6_7b": 6_658_473_984,
    "opt_13b": 12_853_473_280,
}
CAUSAL = ("llama2_7b", "opt_6_7b", "opt_13b")
FORMS = [("bert_large", "prefill"), *((name, phase) for name in CAUSAL for phase in ("prefill", "decode"))]

Shapes = dict[str, tuple[int, ...]]


def inferred_shapes(model: onnx.ModelProto) -> Shapes:
    graph = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    values = [*graph.input, *graph.value_info, *graph.output]
    shapes = {value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim) for value in values}
    return shapes | {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}


def weights_of(model: onnx.ModelProto) -> Shapes:
    return {
        tensor.name: tuple(tensor.dims)
        for tensor in model.graph.initializer
        if tensor.data_location == onnx.TensorProto.EXTERNAL
    }


def macs_of(model: onnx.ModelProto) -> int:
    shapes = inferred_shapes(model)
    products = (node for node in model.graph.node if node.op_type == "MatMul")
    return sum(math.prod(shapes[node.output[0]]) * shapes[node.input[0]][-1] for node in products)


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_match_the_published_network(name: str) -> None:
    weights = weights_of(build(name))
    if name.startswith("opt"):  # the head is the embedding, written once more
        assert weights.pop("lm_head.weight") == weights["embedding.tokens.weight"][::-1]
    assert sum(map(math.prod, weights.values())) == PUBLISHED[name] == describe(name).weights


@pytest.mark.parametrize(("name", "phase"), FORMS)
def test_every_tensor_has_a_static_shape(name: str, phase: str) -> None:
    model = build(name, seq=96, batch=3, phase=phase, layers=2)
    shapes = inferred_shapes(model)
    for node in model.graph.node:
        for tensor in node.output:
            assert shapes[tensor]
            assert all(dim > 0 for dim in shapes[tensor])
            assert shapes[tensor][0] == 3


@pytest.mark.parametrize(("name", "phase"), FORMS)
def test_matrix_work_is_what_the_sizes_say(name: str, phase: str) -> None:
    batch, seq = 4, 100
    sizes = ARCHITECTURES[name]
    tokens, total = (1, seq + 1) if phase == "decode" else (seq, seq)
    projections = 4 * sizes.width**2 + (3 if name == "llama2_7b" else 2) * sizes.width * sizes.hidden
    attention = 2 * total * sizes.width
    expected = batch * tokens * sizes.layers * (projections + attention)
    if name == "bert_large":
        expected += batch * sizes.width**2  # the pooled output sees one token
    else:
        expected += batch * tokens * sizes.width * sizes.vocabulary
    assert macs_of(build(name, batch=batch, seq=seq, phase=phase)) == expected


@pytest.mark.parametrize(("name", "phase"), FORMS)
def test_checker_accepts_all_but_the_missing_data(name: str, phase: str) -> None:
    model = build(name, phase=phase)
    with pytest.raises(onnx.checker.ValidationError, match="should be stored in weightless"):
        onnx.checker.check_model(model)
    for tensor in [tensor for tensor in model.graph.initializer if tensor.name in weights_of(model)]:
        model.graph.initializer.remove(tensor)
        model.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    onnx.checker.check_model(model, full_check=True)


@pytest.mark.parametrize(("name", "phase"), FORMS)
def test_thirteen_billion_parameters_take_kilobytes(name: str, phase: str) -> None:
    model = build(name, seq=2048, batch=8, phase=phase)
    assert model.ByteSize() < 400_000
    assert is_weightless(model)
    assert model == build(name, seq=2048, batch=8, phase=phase)
    real = [tensor for tensor in model.graph.initializer if tensor.name not in weights_of(model)]
    assert sum(len(tensor.raw_data) for tensor in real) < 2000
    assert all(tensor.raw_data for tensor in real)


def test_convolutional_network_is_not_weightless() -> None:
    assert not is_weightless(build("mobilenet_v2"))


@pytest.mark.parametrize("name", CAUSAL)
def test_decode_appends_one_token_to_the_cache_of_each_layer(name: str) -> None:
    model = build(name, seq=48, batch=2, phase="decode")
    shapes = inferred_shapes(model)
    sizes = ARCHITECTURES[name]
    assert shapes["input_ids"] == (2, 1)
    outputs = [value.name for value in model.graph.output]
    for layer in range(sizes.layers):
        for kind in ("key", "value"):
            assert shapes[f"past_{kind}.{layer}"] == (2, sizes.heads, 48, sizes.head_width)
            assert shapes[f"present_{kind}.{layer}"] == (2, sizes.heads, 49, sizes.head_width)
            assert f"present_{kind}.{layer}" in outputs
    assert len(outputs) == 2 * sizes.layers + 1
    assert not any("past" in value.name for value in build(name, seq=48).graph.input)


@pytest.mark.parametrize("name", CAUSAL)
def test_head_can_be_left_out(name: str) -> None:
    with_head, without = build(name, layers=1), build(name, layers=1, lm_head=False)
    assert set(weights_of(with_head)) - set(weights_of(without)) == {"lm_head.weight"}
    assert inferred_shapes(without)[without.graph.output[0].name] == (1, 64, ARCHITECTURES[name].width)


def test_longer_sequences_widen_the_table_of_positions() -> None:
    assert weights_of(build("bert_large", seq=512))["embedding.positions.weight"][0] == 512
    assert weights_of(build("bert_large", seq=2048))["embedding.positions.weight"][0] == 2048
    assert weights_of(build("opt_13b", seq=2048, phase="decode"))["embedding.positions.weight"][0] == 2051


def test_encoder_refuses_to_decode() -> None:
    with pytest.raises(InputError, match=r"phase=decode is not possible.*encoder"):
        build("bert_large", phase="decode")


def test_layers_are_alike() -> None:
    counts = [Counter(node.op_type for node in build("opt_13b", layers=layers).graph.node) for layers in (1, 2, 3)]
    assert counts[1] - counts[0] == counts[2] - counts[1]


# The same builders at a small size, with data, against the formulas written once more in numpy.

TINY = {
    "bert": Architecture("bert", 2, 16, 4, 24, 11, 20),
    "opt": Architecture("opt", 2, 16, 4, 24, 11, 20),
    "llama": Architecture("llama", 2, 16, 4, 24, 11),
}
BATCH, SEQ = 2, 5


def run(model: onnx.ModelProto, feeds: dict[str, Any]) -> dict[str, np.ndarray]:
    onnx.checker.check_model(model, full_check=True)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def feeds_for(family: str, ids: np.ndarray, start: int = 0) -> dict[str, np.ndarray]:
    batch, tokens = ids.shape
    feeds = {"input_ids": ids, "position_ids": np.tile(np.arange(start, start + tokens), (batch, 1))}
    if family == "bert":
        feeds["token_type_ids"] = ids % 2
        mask = np.zeros((batch, 1, 1, tokens), np.float32)
        mask[0, ..., -2:] = -1e9  # the first sequence is shorter
    else:
        query, key = np.mgrid[start : start + tokens, 0 : start + tokens]
        mask = np.where(key > query, -1e9, 0).astype(np.float32) * np.ones((batch, 1, 1, 1), np.float32)
    feeds["attention_mask"] = mask
    return feeds


def numpy_forward(family: str, w: dict[str, np.ndarray], feeds: dict[str, np.ndarray]) -> np.ndarray:
    sizes = TINY[family]
    d = sizes.head_width
    positions = feeds["position_ids"]

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ w[f"{name}.weight"] + w.get(f"{name}.bias", np.float32(0))

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        if family == "llama":
            return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * w[f"{name}.weight"]
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    def rotate(x: np.ndarray) -> np.ndarray:
        # As complex numbers: feature i is the real part, feature i + d/2 the imaginary part.
        angle = positions[:, None, :, None] * 10_000.0 ** (-2 * np.arange(d // 2) / d)
        z = (x[..., : d // 2] + 1j * x[..., d // 2 :]) * np.exp(1j * angle)
        return np.concatenate([z.real, z.imag], -1)

    def attention(x: np.ndarray, name: str) -> np.ndarray:
        heads = []
        q, k, v = (linear(x, f"{name}.{part}") for part in ("query", "key", "value"))
        for head in range(sizes.heads):
            part = slice(head * d, (head + 1) * d)
            qh, kh, vh = q[..., part], k[..., part], v[..., part]
            if family == "llama":
                qh, kh = rotate(qh[:, None])[:, 0], rotate(kh[:, None])[:, 0]
            scores = np.einsum("bqd,bkd->bqk", qh, kh) / math.sqrt(d) + feeds["attention_mask"][:, 0]
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            heads.append(shares / shares.sum(-1, keepdims=True) @ vh)
        return linear(np.concatenate(heads, -1), f"{name}.output")

    def feed_forward(x: np.ndarray, name: str) -> np.ndarray:
        inner = linear(x, f"{name}.up")
        if family == "opt":
            inner = np.maximum(inner, 0)
        elif family == "bert":
            inner = inner * (1 + np.vectorize(math.erf)(inner / math.sqrt(2))) / 2
        else:
            gate = linear(x, f"{name}.gate")
            inner = gate / (1 + np.exp(-gate)) * inner
        return linear(inner, f"{name}.down")

    x = w["embedding.tokens.weight"][feeds["input_ids"]]
    if family == "opt":
        x = x + w["embedding.positions.weight"][positions + 2]
    if family == "bert":
        x = x + w["embedding.positions.weight"][positions] + w["embedding.segments.weight"][feeds["token_type_ids"]]
        x = norm(x, "embedding.norm")
    for layer in range(sizes.layers):
        for branch, name in ((attention, "attention"), (feed_forward, "feed_forward")):
            name = f"layer{layer}.{name}"
            if family == "bert":
                x = norm(x + branch(x, name), f"{name}_norm")
            else:
                x = x + branch(norm(x, f"{name}_norm"), name)
    return x if family == "bert" else linear(norm(x, "final_norm"), "lm_head")


def weight_values(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {tensor.name: onnx.numpy_helper.to_array(tensor).astype(np.float64) for tensor in model.graph.initializer}


def tokens_for(batch: int, count: int) -> np.ndarray:
    return np.random.default_rng(7).integers(0, 11, (batch, count))


@pytest.mark.parametrize("family", TINY)
def test_prefill_computes_the_formulas(family: str) -> None:
    model = transformer(family, TINY[family], seq=SEQ, batch=BATCH, seed=1).build()
    feeds = feeds_for(family, tokens_for(BATCH, SEQ))
    answer = run(model, feeds)
    expected = numpy_forward(family, weight_values(model), feeds)
    first = answer[model.graph.output[0].name]
    np.testing.assert_allclose(first, expected, rtol=1e-3, atol=1e-4)
    if family == "bert":
        weights = weight_values(model)
        pooled = np.tanh(expected[:, 0] @ weights["pooler.dense.weight"] + weights["pooler.dense.bias"])
        np.testing.assert_allclose(answer["pooled"], pooled, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("family", ["opt", "llama"])
def test_decode_continues_a_prefill(family: str) -> None:
    ids = tokens_for(BATCH, SEQ + 1)
    whole = transformer(family, TINY[family], seq=SEQ + 1, batch=BATCH, seed=1).build()
    expected = run(whole, feeds_for(family, ids))[whole.graph.output[0].name][:, -1:]

    prompt = transformer(family, TINY[family], seq=SEQ, batch=BATCH, seed=1).build()
    cache = {}
    for layer in range(TINY[family].layers):
        name = f"layer{layer}.attention"
        key = f"{name}.key_by_head.rotated" if family == "llama" else f"{name}.key_by_head"
        cache |= {f"past_key.{layer}": key, f"past_value.{layer}": f"{name}.value_by_head"}
    for tensor in cache.values():
        prompt.graph.output.append(
            onnx.helper.make_tensor_value_info(tensor, onnx.TensorProto.FLOAT, (BATCH, 4, SEQ, 4))
        )
    past = run(prompt, feeds_for(family, ids[:, :SEQ]))

    step = transformer(family, TINY[family], seq=SEQ, batch=BATCH, decode=True, seed=1).build()
    feeds = feeds_for(family, ids[:, SEQ:], start=SEQ) | {name: past[tensor] for name, tensor in cache.items()}
    answer = run(step, feeds)
    logits = next(value.name for value in step.graph.output if not value.name.startswith("present"))
    np.testing.assert_allclose(answer[logits], expected, rtol=1e-3, atol=1e-4)
    # The cache keeps its order: the new token comes last.
    for name in cache:
        present = answer[name.replace("past", "present")]
        assert present.shape == (BATCH, 4, SEQ + 1, 4)
        np.testing.assert_array_equal(present[:, :, :SEQ], feeds[name])
