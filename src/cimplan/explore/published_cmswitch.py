"""Numbers printed in the CMSwitch paper that `cimplan reproduce` puts its own beside. Nothing is computed from them.

Source: Zhao, Li, Li, He, Wang, Han, Wang, "Be CIM or Be Memory: A Dual-mode-aware DNN Compiler for CIM Accelerators"
(ASPLOS 2025, arXiv 2502.17006). Where the paper gives no value that we know of, there is none here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

SOURCE: Final = "CMSwitch, ASPLOS 2025, arXiv 2502.17006"
BASELINE: Final = "CIM-MLC"
"""The compiler the paper compares with; ours stands in as `all_compute`."""

TITLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bert_large": "BERT-large",
        "llama2_7b": "LLaMA2-7B",
        "opt_6_7b": "OPT-6.7B",
        "opt_13b": "OPT-13B",
        "mobilenet_v2": "MobileNetV2",
        "resnet18": "ResNet-18",
        "vgg16": "VGG16",
    }
)


@dataclass(frozen=True, slots=True)
class SpeedupRange:
    """A speed-up as printed: the average, and the least and the largest of a row of bars."""

    average: float
    least: float
    largest: float


END_TO_END: Final[Mapping[str, SpeedupRange]] = MappingProxyType(
    {
        "bert_large": SpeedupRange(1.17, 1.02, 1.25),
        "llama2_7b": SpeedupRange(1.24, 1.13, 1.30),
        "opt_13b": SpeedupRange(1.73, 1.20, 2.03),
        "mobilenet_v2": SpeedupRange(1.15, 1.06, 1.23),
        "resnet18": SpeedupRange(1.17, 1.07, 1.23),
        "vgg16": SpeedupRange(1.40, 1.32, 1.48),
    }
)
"""Speed-up over CIM-MLC by network; sequence length 64."""

END_TO_END_SEQUENCE: Final = 64
OVERALL_SPEEDUP: Final = 1.31
LARGEST_SPEEDUP: Final = 2.03

OPT_BATCH: Final = 8
OPT_SEQUENCE_SPEEDUPS: Final[Mapping[int, float]] = MappingProxyType({32: 1.41, 64: 1.58, 128: 1.27, 2048: 1.22})
"""OPT-6.7B at batch 8, by sequence length. Between 128 and 2048 the values lie between 1.22 and 1.23."""

OPT_MEMORY_SHARE: Final[Mapping[int, float]] = MappingProxyType({32: 0.208, 2048: 0.120})
"""Share of arrays in memory mode, OPT-6.7B at batch 8, at the ends of the sweep."""

BERT_SEQUENCE_SPEEDUPS: Final[Mapping[int, float]] = MappingProxyType({32: 1.19, 256: 1.03, 1024: 1.0})
"""BERT-large by sequence length: falls from 1.19 at 32 to 1.03 at 256, and is 1.0 above 512."""

VGG16_SEGMENTS: Final[tuple[tuple[int, ...], ...]] = ((1, 2, 3, 4), (5, 6))
"""Convolutions of VGG16 that share a segment; each later one has a segment of its own."""

SWITCH_SHARE: Final = (0.03, 0.05)
"""Share of the time that switching takes."""

COMPILE_TIME_RATIO: Final = (2.8, 6.3)
"""Compile time over that of CIM-MLC."""
