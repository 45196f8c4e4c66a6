"""Image classifiers: ResNet, MobileNetV2 and VGG, for 224×224 colour images and 1000 classes."""

from __future__ import annotations

import numpy as np

from cimplan.zoo.layers import (
    LINEAR_GAIN,
    RELU_GAIN,
    RESIDUAL_GAIN,
    classifier,
    convolution,
    fully_connected,
    max_pool,
    relu,
    relu6,
)
from cimplan.zoo.network import Network

IMAGE_SIZE = 224

_RESNET_BLOCKS: dict[str, tuple[bool, tuple[int, ...]]] = {
    "resnet18": (False, (2, 2, 2, 2)),
    "resnet34": (False, (3, 4, 6, 3)),
    "resnet50": (True, (3, 4, 6, 3)),
    "resnet101": (True, (3, 4, 23, 3)),
}

# Per stage: expansion, channels, blocks, stride of the first block (Sandler et al. 2018, table 2).
_MOBILENET_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)

# Channels of the convolutions between two poolings (Simonyan & Zisserman 2015, configuration D).
_VGG16_STAGES = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


def resnet(name: str, *, batch: int, seed: int) -> Network:
    """Return a residual network (He et al. 2016), the stride of a bottleneck on its 3×3 convolution.

    Parameters
    ----------
    name : str
        ``resnet18``, ``resnet34``, ``resnet50`` or ``resnet101``.
    batch : int
        Images in one inference.
    seed : int
        Of the random weights.
    """
    bottleneck, stages = _RESNET_BLOCKS[name]
    network = Network(name, seed)
    image = network.input("image", (batch, 3, IMAGE_SIZE, IMAGE_SIZE))
    tensor = relu(network, convolution(network, image, "stem", inputs=3, outputs=64, kernel=7, stride=2))
    tensor = max_pool(network, tensor, "stem.pool", kernel=3, stride=2, padding=1)
    channels = 64
    for stage, blocks in enumerate(stages):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            add_block = _bottleneck_block if bottleneck else _basic_block
            tensor, channels = add_block(network, tensor, f"stage{stage + 1}.block{block + 1}", channels, width, stride)
    classifier(network, tensor, batch=batch, inputs=channels)
    return network


def _basic_block(network: Network, source: str, name: str, inputs: int, width: int, stride: int) -> tuple[str, int]:
    branch = convolution(network, source, f"{name}.conv1", inputs=inputs, outputs=width, kernel=3, stride=stride)
    branch = relu(network, branch)
    branch = convolution(network, branch, f"{name}.conv2", inputs=width, outputs=width, kernel=3, gain=RESIDUAL_GAIN)
    return _joined(network, source, branch, name, inputs, width, stride), width


def _bottleneck_block(
    network: Network, source: str, name: str, inputs: int, width: int, stride: int
) -> tuple[str, int]:
    outputs = 4 * width
    branch = relu(network, convolution(network, source, f"{name}.conv1", inputs=inputs, outputs=width, kernel=1))
    branch = convolution(network, branch, f"{name}.conv2", inputs=width, outputs=width, kernel=3, stride=stride)
    branch = relu(network, branch)
    branch = convolution(network, branch, f"{name}.conv3", inputs=width, outputs=outputs, kernel=1, gain=RESIDUAL_GAIN)
    return _joined(network, source, branch, name, inputs, outputs, stride), outputs


def _joined(network: Network, source: str, branch: str, name: str, inputs: int, outputs: int, stride: int) -> str:
    if stride != 1 or inputs != outputs:
        source = convolution(
            network,
            source,
            f"{name}.shortcut",
            inputs=inputs,
            outputs=outputs,
            kernel=1,
            stride=stride,
            gain=LINEAR_GAIN,
        )
    return relu(network, network.node("Add", [branch, source], f"{name}.add"))


def mobilenet_v2(*, batch: int, seed: int) -> Network:
    """Return MobileNetV2 at width 1.0 (Sandler et al. 2018)."""
    network = Network("mobilenet_v2", seed)
    image = network.input("image", (batch, 3, IMAGE_SIZE, IMAGE_SIZE))
    tensor = relu6(network, convolution(network, image, "stem", inputs=3, outputs=32, kernel=3, stride=2))
    channels = 32
    for stage, (expansion, outputs, blocks, first_stride) in enumerate(_MOBILENET_STAGES, start=1):
        for block in range(1, blocks + 1):
            stride = first_stride if block == 1 else 1
            tensor = _inverted_residual(
                network, tensor, f"stage{stage}.block{block}", channels, channels * expansion, outputs, stride
            )
            channels = outputs
    tensor = relu6(network, convolution(network, tensor, "last", inputs=channels, outputs=1280, kernel=1))
    classifier(network, tensor, batch=batch, inputs=1280)
    return network


def _inverted_residual(
    network: Network, source: str, name: str, inputs: int, hidden: int, outputs: int, stride: int
) -> str:
    tensor = source
    if hidden != inputs:
        expanded = convolution(network, tensor, f"{name}.expand", inputs=inputs, outputs=hidden, kernel=1)
        tensor = relu6(network, expanded)
    depthwise = convolution(
        network, tensor, f"{name}.depthwise", inputs=hidden, outputs=hidden, kernel=3, stride=stride, groups=hidden
    )
    residual = stride == 1 and inputs == outputs
    projected = convolution(
        network,
        relu6(network, depthwise),
        f"{name}.project",
        inputs=hidden,
        outputs=outputs,
        kernel=1,
        gain=RESIDUAL_GAIN if residual else RELU_GAIN,
    )
    return network.node("Add", [source, projected], f"{name}.add") if residual else projected


def vgg16(*, batch: int, seed: int) -> Network:
    """Return VGG16 (Simonyan & Zisserman 2015, configuration D); dropout does nothing at inference."""
    network = Network("vgg16", seed)
    tensor = network.input("image", (batch, 3, IMAGE_SIZE, IMAGE_SIZE))
    channels = 3
    for stage, widths in enumerate(_VGG16_STAGES, start=1):
        for layer, width in enumerate(widths, start=1):
            tensor = convolution(network, tensor, f"stage{stage}.conv{layer}", inputs=channels, outputs=width, kernel=3)
            tensor = relu(network, tensor)
            channels = width
        tensor = max_pool(network, tensor, f"stage{stage}.pool", kernel=2, stride=2, padding=0)
    features = channels * (IMAGE_SIZE >> len(_VGG16_STAGES)) ** 2
    shape = network.constant("flat.shape", [batch, features], np.int64)
    tensor = network.node("Reshape", [tensor, shape], "flat")
    for name in ("hidden1", "hidden2"):
        tensor = fully_connected(network, tensor, name, inputs=features, outputs=4096, gain=RELU_GAIN)
        tensor = relu(network, tensor)
        features = 4096
    network.output(fully_connected(network, tensor, "logits", inputs=features, outputs=1000), (batch, 1000))
    return network
