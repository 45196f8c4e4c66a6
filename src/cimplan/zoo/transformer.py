"""Transformers as graphs of shapes: BERT, OPT and LLaMA-2, in prefill or in decode with a cache of keys and values.

The graphs are complete ONNX, typed float32, and weightless: every weight has its shape and no data, so a network of
13·10⁹ parameters takes a megabyte. A compiler that plans them in int8 counts elements and takes its own width.

Two phases of a causal network:

prefill
    The prompt: ``seq`` tokens per sequence enter together.
decode
    One new token per sequence, with ``seq`` earlier tokens in the cache: keys and values of each layer are graph
    inputs (``past_key.0``, ``past_value.0``, …), the new ones are appended, and the longer cache is a graph output.

The causal or padding mask enters as an additive tensor and positions enter as numbers, as the caller knows both.
A sequence longer than the network was trained for widens its table of positions (BERT 512, OPT 2048).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from onnx import TensorProto

from cimplan.zoo.network import Network

Family = Literal["bert", "opt", "llama"]

# OPT reserves the first two rows of its table of positions.
_OPT_POSITION_OFFSET = 2

_NORM_EPSILON = {"bert": 1e-12, "opt": 1e-5, "llama": 1e-5}
_ROTARY_BASE = 10_000.0


@dataclass(frozen=True)
class Architecture:
    """The sizes of a transformer.

    Attributes
    ----------
    family : {"bert", "opt", "llama"}
        BERT: encoder, normalises after each sum, GELU, pooled output. OPT: normalises before each branch, ReLU, learned
        positions, head tied to the embedding. LLaMA: RMS norm, gated SiLU, rotary positions, no biases, its own head.
    layers, width, heads, hidden : int
        Blocks, features of a token, attention heads, features inside a feed-forward branch.
    vocabulary : int
        Tokens the embedding knows.
    positions : int
        Rows of the table of positions for usable positions; 0 with rotary positions.
    """

    family: Family
    layers: int
    width: int
    heads: int
    hidden: int
    vocabulary: int
    positions: int = 0

    @property
    def head_width(self) -> int:
        """Features of a token in one attention head."""
        return self.width // self.heads


ARCHITECTURES = {
    "bert_large": Architecture("bert", 24, 1024, 16, 4096, 30_522, 512),
    "llama2_7b": Architecture("llama", 32, 4096, 32, 11_008, 32_000),
    "opt_6_7b": Architecture("opt", 32, 4096, 32, 16_384, 50_272, 2048),
    "opt_13b": Architecture("opt", 40, 5120, 40, 20_480, 50_272, 2048),
}


def transformer(
    name: str,
    architecture: Architecture,
    *,
    seq: int,
    batch: int,
    decode: bool = False,
    layers: int | None = None,
    lm_head: bool = True,
    seed: int | None = None,
) -> Network:
    """Return a transformer.

    Parameters
    ----------
    name : str
        Of the graph.
    architecture : Architecture
        Its sizes.
    seq : int
        Tokens per sequence in prefill; earlier tokens in the cache in decode.
    batch : int
        Sequences.
    decode : bool
        One new token per sequence, with a cache; only for causal networks.
    layers : int, optional
        Another number of layers than the architecture has.
    lm_head : bool
        Whether a causal network ends with the scores of all tokens of the vocabulary.
    seed : int, optional
        Of random weights with data, which small architectures can afford; without one the network is weightless.

    Returns
    -------
    Network
        Ready to be built or written.
    """
    network = Network(name, seed)
    builder = _Builder(network, architecture, batch, tokens=1 if decode else seq, past=seq if decode else 0)
    builder.add(architecture.layers if layers is None else layers, lm_head)
    return network


@dataclass
class _Builder:
    """Adds a transformer to a network; `tokens` enter per sequence, `past` are in the cache."""

    network: Network
    architecture: Architecture
    batch: int
    tokens: int
    past: int

    def add(self, layers: int, lm_head: bool) -> None:
        """Add the whole transformer with its inputs and outputs."""
        network, sizes = self.network, self.architecture
        state = self._embedded()
        queries = 1 if sizes.family == "bert" else self.tokens
        mask = network.input("attention_mask", (self.batch, 1, queries, self.past + self.tokens))
        rotation = self._rotation() if sizes.family == "llama" else None
        for layer in range(layers):
            state = self._layer(state, layer, mask, rotation)

        shape = (self.batch, self.tokens, sizes.width)
        if sizes.family == "bert":
            network.output(state, shape)
            self._pooled(state)
            return
        state = self._norm(state, "final_norm")
        if lm_head:
            # OPT's head is its embedding, transposed as constant folding leaves it.
            state = self._linear(
                state, "lm_head", sizes.width, sizes.vocabulary, bias=False, shared=sizes.family == "opt"
            )
            shape = (self.batch, self.tokens, sizes.vocabulary)
        network.output(state, shape)

    def _embedded(self) -> str:
        """Turn token numbers into features."""
        network, sizes = self.network, self.architecture
        shape = (self.batch, self.tokens)
        state = self._looked_up(
            "embedding.tokens", network.input("input_ids", shape, TensorProto.INT64), sizes.vocabulary
        )
        positions = network.input("position_ids", shape, TensorProto.INT64)
        if sizes.family == "llama":
            return state
        rows = max(sizes.positions, self.past + self.tokens)
        if sizes.family == "opt":
            offset = network.constant("embedding.position_offset", _OPT_POSITION_OFFSET, np.int64)
            positions = network.node("Add", [positions, offset], "embedding.position_rows")
            rows += _OPT_POSITION_OFFSET
        state = network.node("Add", [state, self._looked_up("embedding.positions", positions, rows)], "embedding.sum")
        if sizes.family == "bert":
            segments = self._looked_up(
                "embedding.segments", network.input("token_type_ids", shape, TensorProto.INT64), 2
            )
            state = network.node("Add", [state, segments], "embedding.sum_segments")
            state = self._norm(state, "embedding.norm")
        return state

    def _looked_up(self, name: str, rows: str, count: int) -> str:
        table = self.network.weight(f"{name}.weight", (count, self.architecture.width), deviation=0.5)
        return self.network.node("Gather", [table, rows], name, axis=0)

    def _layer(self, state: str, layer: int, mask: str, rotation: tuple[str, str] | None) -> str:
        name = f"layer{layer}"
        for branch in ("attention", "feed_forward"):
            source = state
            if self.architecture.family != "bert":
                source = self._norm(source, f"{name}.{branch}_norm")
            if branch == "attention":
                source = self._attention(source, layer, mask, rotation)
            else:
                source = self._feed_forward(source, f"{name}.feed_forward")
            state = self.network.node("Add", [state, source], f"{name}.{branch}_sum")
            if self.architecture.family == "bert":
                state = self._norm(state, f"{name}.{branch}_norm")
        return state

    def _attention(self, source: str, layer: int, mask: str, rotation: tuple[str, str] | None) -> str:
        """softmax(q·kᵀ/√d + mask)·v, per head (Vaswani et al. 2017), with the cache in front of k and v."""
        network, width = self.network, self.architecture.width
        name = f"layer{layer}.attention"
        query = self._per_head(self._linear(source, f"{name}.query", width, width), f"{name}.query")
        key = self._per_head(self._linear(source, f"{name}.key", width, width), f"{name}.key")
        value = self._per_head(self._linear(source, f"{name}.value", width, width), f"{name}.value")
        if rotation is not None:
            query, key = self._rotated(query, rotation), self._rotated(key, rotation)
        if self.past:
            key = self._with_past(key, f"key.{layer}")
            value = self._with_past(value, f"value.{layer}")

        scale = network.constant("attention.scale", 1 / math.sqrt(self.architecture.head_width), np.float32)
        query = network.node("Mul", [query, scale], f"{name}.query_scaled")
        key = network.node("Transpose", [key], f"{name}.key_transposed", perm=[0, 1, 3, 2])
        scores = network.node("MatMul", [query, key], f"{name}.scores")
        scores = network.node("Add", [scores, mask], f"{name}.scores_masked")
        shares = network.node("Softmax", [scores], f"{name}.shares", axis=-1)
        mixed = network.node("MatMul", [shares, value], f"{name}.mixed")
        mixed = network.node("Transpose", [mixed], f"{name}.mixed_by_token", perm=[0, 2, 1, 3])
        shape = network.constant("attention.joined_shape", [self.batch, self.tokens, width], np.int64)
        mixed = network.node("Reshape", [mixed, shape], f"{name}.joined")
        return self._linear(mixed, f"{name}.output", width, width)

    def _per_head(self, source: str, name: str) -> str:
        """Turn (batch, tokens, width) into (batch, heads, tokens, head width)."""
        heads = [self.batch, self.tokens, self.architecture.heads, self.architecture.head_width]
        shape = self.network.constant("attention.heads_shape", heads, np.int64)
        split = self.network.node("Reshape", [source, shape], f"{name}_split")
        return self.network.node("Transpose", [split], f"{name}_by_head", perm=[0, 2, 1, 3])

    def _with_past(self, new: str, name: str) -> str:
        sizes = self.architecture
        past = self.network.input(f"past_{name}", (self.batch, sizes.heads, self.past, sizes.head_width))
        present = self.network.node("Concat", [past, new], f"present_{name}", axis=2)
        self.network.output(present, (self.batch, sizes.heads, self.past + self.tokens, sizes.head_width))
        return present

    def _rotation(self) -> tuple[str, str]:
        """Return cosines and sines of position·base^(-2i/d) (Su et al. 2021), of shape (batch, 1, tokens, d)."""
        network, width = self.network, self.architecture.head_width
        frequencies = _ROTARY_BASE ** (-np.arange(0, width, 2) / width)
        both_halves = network.constant("rotary.frequencies", np.tile(frequencies, 2), np.float32)
        positions = network.node("Cast", ["position_ids"], "rotary.positions", to=TensorProto.FLOAT)
        shape = network.constant("rotary.shape", [self.batch, 1, self.tokens, 1], np.int64)
        positions = network.node("Reshape", [positions, shape], "rotary.positions_column")
        angles = network.node("Mul", [positions, both_halves], "rotary.angles")
        return network.node("Cos", [angles], "rotary.cosines"), network.node("Sin", [angles], "rotary.sines")

    def _rotated(self, source: str, rotation: tuple[str, str]) -> str:
        """Turn feature i and feature i + d/2 by the angle of their position."""
        network, half = self.network, self.architecture.head_width // 2
        cosines, sines = rotation
        halves = network.constant("rotary.halves", [half, half], np.int64)
        names = [f"{source}.first_half", f"{source}.second_half"]
        first, second = network.nodes("Split", [source, halves], f"{source}.halves", names, axis=3)
        second = network.node("Neg", [second], f"{source}.negated")
        turned = network.node("Concat", [second, first], f"{source}.quarter_turn", axis=3)
        along = network.node("Mul", [source, cosines], f"{source}.along")
        across = network.node("Mul", [turned, sines], f"{source}.across")
        return network.node("Add", [along, across], f"{source}.rotated")

    def _feed_forward(self, source: str, name: str) -> str:
        network, width, hidden = self.network, self.architecture.width, self.architecture.hidden
        if self.architecture.family == "llama":
            gate = self._linear(source, f"{name}.gate", width, hidden)
            sigmoid = network.node("Sigmoid", [gate], f"{name}.gate_sigmoid")
            gate = network.node("Mul", [gate, sigmoid], f"{name}.gate_silu")
            up = self._linear(source, f"{name}.up", width, hidden)
            return self._linear(network.node("Mul", [gate, up], f"{name}.gated"), f"{name}.down", hidden, width)
        inner = self._linear(source, f"{name}.up", width, hidden)
        if self.architecture.family == "opt":
            inner = network.node("Relu", [inner], f"{name}.relu")
        else:
            inner = self._gelu(inner, name)
        return self._linear(inner, f"{name}.down", hidden, width)

    def _gelu(self, source: str, name: str) -> str:
        """x·(1 + erf(x/√2))/2 (Hendrycks & Gimpel 2016)."""
        network = self.network
        scaled = network.node(
            "Div", [source, network.constant("gelu.root_two", math.sqrt(2), np.float32)], f"{name}.gelu_scaled"
        )
        error = network.node("Erf", [scaled], f"{name}.gelu_erf")
        error = network.node("Add", [error, network.constant("gelu.one", 1.0, np.float32)], f"{name}.gelu_shifted")
        product = network.node("Mul", [source, error], f"{name}.gelu_product")
        return network.node("Mul", [product, network.constant("gelu.half", 0.5, np.float32)], f"{name}.gelu")

    def _norm(self, source: str, name: str) -> str:
        network, sizes = self.network, self.architecture
        weight = network.weight(f"{name}.weight", (sizes.width,), deviation=1.0)
        epsilon = _NORM_EPSILON[sizes.family]
        if sizes.family != "llama":
            bias = network.weight(f"{name}.bias", (sizes.width,), deviation=0.1)
            return network.node("LayerNormalization", [source, weight, bias], name, axis=-1, epsilon=epsilon)
        # x/√(mean x² + ε)·weight (Zhang & Sennrich 2019)
        square = network.node("Mul", [source, source], f"{name}.square")
        mean = network.node("ReduceMean", [square], f"{name}.mean_square", axes=[-1], keepdims=1)
        mean = network.node("Add", [mean, network.constant("norm.epsilon", epsilon, np.float32)], f"{name}.shifted")
        root = network.node("Sqrt", [mean], f"{name}.root")
        return network.node("Mul", [network.node("Div", [source, root], f"{name}.unit"), weight], name)

    def _linear(
        self, source: str, name: str, inputs: int, outputs: int, *, bias: bool = True, shared: bool = False
    ) -> str:
        network = self.network
        weight = network.weight(f"{name}.weight", (inputs, outputs), deviation=1 / math.sqrt(inputs), shared=shared)
        if not bias or self.architecture.family == "llama":
            return network.node("MatMul", [source, weight], name)
        product = network.node("MatMul", [source, weight], f"{name}.product")
        return network.node("Add", [product, network.weight(f"{name}.bias", (outputs,), deviation=0.1)], name)

    def _pooled(self, state: str) -> None:
        """Add BERT's pooled output: the first token through one layer and tanh."""
        network, width = self.network, self.architecture.width
        first = network.node("Gather", [state, network.constant("pooler.first", 0, np.int64)], "pooler.token", axis=1)
        pooled = network.node("Tanh", [self._linear(first, "pooler.dense", width, width)], "pooled")
        network.output(pooled, (self.batch, width))
