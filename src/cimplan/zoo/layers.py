"""Layers shared by the convolutional networks, with batch normalisation folded into weight and bias.

Random weights follow He et al. (2015): a normal distribution of variance gain / fan-in keeps the spread of the
activations from layer to layer. A trained network keeps it by batch normalisation, which the folded weights here
stand for.
"""

from __future__ import annotations

import math

import numpy as np

from cimplan.zoo.network import Network

RELU_GAIN = 2.0
"""One over the share of the energy of a standard normal variable that a rectifier lets through."""

SILU_GAIN = 2.8
"""The same for x·sigmoid(x)."""

LINEAR_GAIN = 1.0

RESIDUAL_GAIN = 0.25
"""For the last convolution of a residual branch: a sum of many branches would otherwise double at each."""

_BIAS_DEVIATION = 0.1


def convolution(
    network: Network,
    source: str,
    name: str,
    *,
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int = 1,
    padding: int | None = None,
    groups: int = 1,
    gain: float = RELU_GAIN,
) -> str:
    """Add a two-dimensional convolution with bias.

    Parameters
    ----------
    network : Network
        Where to add it.
    source : str
        The tensor it reads, of shape (batch, inputs, height, width).
    name : str
        Of the node and its output.
    inputs, outputs : int
        Channels.
    kernel, stride : int
        The same in both directions.
    padding : int, optional
        On each side; by default half the kernel, rounded down.
    groups : int
        Of channels that do not see each other.
    gain : float
        Of the activation around it, for the spread of the weights.

    Returns
    -------
    str
        The tensor it writes.
    """
    fan_in = inputs // groups * kernel * kernel
    weight = network.weight(
        f"{name}.weight", (outputs, inputs // groups, kernel, kernel), deviation=math.sqrt(gain / fan_in)
    )
    bias = network.weight(f"{name}.bias", (outputs,), deviation=_BIAS_DEVIATION)
    margin = kernel // 2 if padding is None else padding
    return network.node(
        "Conv",
        [source, weight, bias],
        name,
        kernel_shape=[kernel, kernel],
        strides=[stride, stride],
        pads=[margin] * 4,
        dilations=[1, 1],
        group=groups,
    )


def fully_connected(
    network: Network, source: str, name: str, *, inputs: int, outputs: int, gain: float = LINEAR_GAIN
) -> str:
    """Add a fully connected layer with bias, from (batch, inputs) to (batch, outputs)."""
    weight = network.weight(f"{name}.weight", (outputs, inputs), deviation=math.sqrt(gain / inputs))
    bias = network.weight(f"{name}.bias", (outputs,), deviation=_BIAS_DEVIATION)
    return network.node("Gemm", [source, weight, bias], name, transB=1)


def relu(network: Network, source: str) -> str:
    """Add a rectifier."""
    return network.node("Relu", [source], f"{source}.relu")


def relu6(network: Network, source: str) -> str:
    """Add a rectifier that saturates at six."""
    low = network.constant("relu6.low", 0.0, np.float32)
    high = network.constant("relu6.high", 6.0, np.float32)
    return network.node("Clip", [source, low, high], f"{source}.relu6")


def silu(network: Network, source: str) -> str:
    """Add x·sigmoid(x), as two nodes."""
    gate = network.node("Sigmoid", [source], f"{source}.sigmoid")
    return network.node("Mul", [source, gate], f"{source}.silu")


def max_pool(network: Network, source: str, name: str, *, kernel: int, stride: int, padding: int) -> str:
    """Add a two-dimensional maximum over square windows."""
    return network.node(
        "MaxPool", [source], name, kernel_shape=[kernel, kernel], strides=[stride, stride], pads=[padding] * 4
    )


def classifier(network: Network, source: str, *, batch: int, inputs: int, classes: int = 1000) -> None:
    """Add the head of an image classifier, as ReduceMean, Reshape and Gemm, and declare the output."""
    mean = network.node("ReduceMean", [source], "pool", axes=[2, 3], keepdims=1)
    shape = network.constant("flat.shape", [batch, inputs], np.int64)
    flat = network.node("Reshape", [mean, shape], "flat")
    network.output(fully_connected(network, flat, "logits", inputs=inputs, outputs=classes), (batch, classes))
