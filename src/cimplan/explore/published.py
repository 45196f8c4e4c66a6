"""Numbers printed in the papers that `cimplan reproduce` puts its own beside. Nothing is computed from them.

Source: Klein, Pelke, Laudani, Joseph, Leupers, "Optimizing ML Workload Partitioning between CPUs and CIM Accelerators
for Heterogeneous Computing" (arXiv 2607.05240), Table I and Figures 3 to 5. Values of figures are those the paper
prints or states; where it gives none, there is none here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

PublishedHost = Literal["x86", "arm"]

SOURCE: Final = "Klein et al. 2026, arXiv 2607.05240"

MODELS: Final = ("resnet18", "resnet50", "mobilenet_v2", "yolov5n")
BUDGETS: Final = (25, 50, 100, 200)
LATENCIES_NS: Final = (50.0, 100.0, 500.0, 1000.0)
TIME_LIMIT_S: Final = 600.0
"""What the paper gave its solver for one instance."""

ROUNDING: Final = 0.05
"""Speed-ups are printed with one decimal."""

TITLES: Final[Mapping[str, str]] = MappingProxyType(
    {"resnet18": "ResNet-18", "resnet50": "ResNet-50", "mobilenet_v2": "MobileNetV2", "yolov5n": "YOLOv5n"}
)

HOST_TITLES: Final[Mapping[PublishedHost, str]] = MappingProxyType(
    {"x86": "AMD Ryzen 9 3900X, 20.48 GB/s bus", "arm": "ARM Cortex-A72, 10.24 GB/s bus"}
)

HOST_PRESETS: Final[Mapping[PublishedHost, str]] = MappingProxyType({"x86": "rram-256", "arm": "rram-256-arm"})
"""Hardware descriptions with the accelerator and the bus of each host."""


@dataclass(frozen=True, slots=True)
class TableOneRow:
    """A row of Table I (ARM host).

    Attributes
    ----------
    operators, decision_variables, constraints : int
        Size of the published programme.
    solve_s : float
        Mean over 16 instances; an upper limit where `solve_is_limit`, which the paper prints as "<0.01".
    gap : float
        Mean relative gap over 16 instances; 0.0697 stands for 6.97 %.
    solve_is_limit : bool
        Whether the paper only says that it took less.
    """

    operators: int
    decision_variables: int
    constraints: int
    solve_s: float
    gap: float
    solve_is_limit: bool = False

    @property
    def solve_text(self) -> str:
        """The time as printed."""
        return f"<{self.solve_s:g}" if self.solve_is_limit else f"{self.solve_s:g}"


TABLE_ONE: Final[Mapping[str, TableOneRow]] = MappingProxyType(
    {
        "resnet18": TableOneRow(38, 44, 204, 0.01, 0.0002, solve_is_limit=True),
        "resnet50": TableOneRow(79, 91, 412, 0.24, 0.0037),
        "mobilenet_v2": TableOneRow(71, 71, 331, 0.01, 0.0007, solve_is_limit=True),
        "yolov5n": TableOneRow(251, 3041, 7035, 503.0, 0.0697),
    }
)

TABLE_ONE_HOST: Final[PublishedHost] = "arm"


def _row(budgets: tuple[int, ...], speedups: tuple[float, ...]) -> Mapping[int, float]:
    return MappingProxyType(dict(zip(budgets, speedups, strict=True)))


SPEEDUPS_50NS: Final[Mapping[tuple[PublishedHost, str], Mapping[int, float]]] = MappingProxyType(
    {
        ("arm", "resnet18"): _row(BUDGETS, (8.7, 8.8, 30.9, 30.9)),
        ("arm", "resnet50"): _row(BUDGETS, (2.2, 6.4, 14.6, 14.9)),
        ("arm", "mobilenet_v2"): _row(BUDGETS, (2.1, 3.5, 3.9, 3.9)),
        ("arm", "yolov5n"): _row(BUDGETS, (1.4, 1.9, 3.1, 3.1)),
        ("x86", "resnet18"): _row(BUDGETS, (4.7, 4.8, 7.3, 7.3)),
        ("x86", "resnet50"): _row(BUDGETS, (2.0, 2.8, 3.1, 3.1)),
        ("x86", "mobilenet_v2"): _row(BUDGETS, (1.2, 1.2, 1.2, 1.2)),
        ("x86", "yolov5n"): _row(BUDGETS, (1.4, 1.7, 1.9, 1.9)),
    }
)
"""Figure 4: speed-up over the host alone at an MVM latency of 50 ns, by host and model, then by crossbars."""


def _latencies(budget: int, speedups: tuple[float, ...]) -> dict[tuple[int, float], float]:
    return {(budget, latency): value for latency, value in zip(LATENCIES_NS, speedups, strict=True)}


RESNET18_SPEEDUPS: Final[Mapping[PublishedHost, Mapping[tuple[int, float], float]]] = MappingProxyType(
    {
        "arm": MappingProxyType(
            _latencies(25, (8.7, 7.8, 4.2, 2.7))
            | _latencies(50, (8.8, 7.9, 4.3, 2.7))
            | _latencies(100, (30.9, 21.1, 6.0, 3.1))
            | _latencies(200, (30.9, 21.1, 6.0, 3.1))
        ),
        "x86": MappingProxyType(
            {(25, 50.0): 4.7, (50, 50.0): 4.8}
            | _latencies(100, (7.3, 4.0, 1.0, 1.0))
            | _latencies(200, (7.3, 4.0, 1.0, 1.0))
        ),
    }
)
"""Figure 3: speed-up of ResNet-18 by crossbars and MVM latency in nanoseconds, where known."""


@dataclass(frozen=True, slots=True)
class OffloadedOperators:
    """What the paper says of YOLOv5n in Figure 5.

    Attributes
    ----------
    crossbars : int or None
        Budget; None where the text does not say, which can only be one that holds all it wants to offload.
    latency_ns : float
        Of one MVM.
    operators : int
        Operators offloaded, of 251.
    makespan_ms : float or None
        End-to-end latency, where given.
    """

    crossbars: int | None
    latency_ns: float
    operators: int
    makespan_ms: float | None = None


YOLOV5N_OFFLOADED: Final[Mapping[PublishedHost, tuple[OffloadedOperators, ...]]] = MappingProxyType(
    {
        "arm": (
            OffloadedOperators(25, 50.0, 16, 270.0),
            OffloadedOperators(100, 50.0, 59, 127.0),
            OffloadedOperators(None, 1000.0, 33),
        ),
        "x86": (OffloadedOperators(None, 50.0, 48), OffloadedOperators(None, 1000.0, 6)),
    }
)
"""Figure 5: operators of YOLOv5n on the accelerator."""

CROSSBARS_OF_EVERYTHING: Final[Mapping[str, int]] = MappingProxyType(
    {"resnet18": 201, "resnet50": 422, "mobilenet_v2": 142, "yolov5n": 95}
)
"""What equation (1) gives for all supported operators of each network on 256×256 crossbars; computed by us, and here
only so that a change of the computation is noticed."""

HOST_NS_PER_MVM_FIT: Final = 3300.0
"""Host time of one MVM's worth of work that fits the published ResNet-18 row of the ARM host; our fit, not theirs."""
