"""How a dual-mode cost model reads what its source leaves open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

CostModel = Literal["published", "resident"]
DataMoved = Literal["inputs", "inputs_outputs", "inputs_outputs_weights"]
ConvolutionInputs = Literal["raw", "im2col"]
WeightWrites = Literal["free", "main_bandwidth", "array_cycles", "both"]
MainBandwidth = Literal["each", "shared"]
Duplication = Literal["whole", "linear"]
GroupPacking = Literal["block_diagonal", "one_per_group"]


@dataclass(frozen=True, slots=True)
class Readings:
    """How the cost model reads what its source leaves open.

    Attributes
    ----------
    cost_model : {"published", "resident"}
        "published": memory arrays raise the bandwidth of all data an operator moves. "resident": they serve only
        bytes that are in them.
    data_moved : {"inputs", "inputs_outputs", "inputs_outputs_weights"}
        What counts as bytes moved by an operator (B).
    convolution_inputs : {"raw", "im2col"}
        Whether a convolution moves each input once or once for every window it lies in.
    weight_writes : {"free", "main_bandwidth", "array_cycles", "both"}
        What the writing of weights costs: nothing, their bytes over the main bandwidth, `write_cycles` for each
        array of an operator in series, or the larger of the last two.
    main_bandwidth : {"each", "shared"}
        Whether the main bandwidth serves each operator of a segment in full, or all of them together.
    duplication : {"whole", "linear"}
        Whether an operator takes more arrays in whole copies of its matrix, or one by one (optimistic).
    group_packing : {"block_diagonal", "one_per_group"}
        How the small matrices of grouped work are stored: several in one array on disjoint rows and columns, or each
        in arrays of its own.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    cost_model: CostModel = "published"
    data_moved: DataMoved = "inputs_outputs_weights"
    convolution_inputs: ConvolutionInputs = "raw"
    weight_writes: WeightWrites = "both"
    main_bandwidth: MainBandwidth = "each"
    duplication: Duplication = "whole"
    group_packing: GroupPacking = "block_diagonal"
