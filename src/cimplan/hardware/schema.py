"""What a chip and its host look like to cimplan: the schema of a hardware description.

Orientation, here as everywhere: a weight matrix has N inputs and M outputs; inputs drive the **rows** (wordlines) of
a crossbar and outputs are read from its **columns** (bitlines). Quantities carry their unit in the file
(``mvm_latency: 50ns``) and in the attribute's name (``mvm_latency_ns``).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from cimplan.hardware.quantities import LEAST_RATE, MOST_RATE, BandwidthGbps, DurationNs, FrequencyHz, SizeBytes
from cimplan.operator_types import OFFLOADABLE

SCHEMA_VERSION: Literal[1] = 1

MATRIX_OPERATORS: tuple[str, ...] = OFFLOADABLE
"""ONNX operator types (also of ONNX Runtime's own domain) that are matrix work and may be named as supported."""

_COUNT_LIMIT = 10**9
_BITS_LIMIT = 64

Count = Annotated[int, Field(gt=0, le=_COUNT_LIMIT)]
Cycles = Annotated[int, Field(ge=0, le=_COUNT_LIMIT)]
Bits = Annotated[int, Field(gt=0, le=_BITS_LIMIT)]
Rate = Annotated[float, Field(ge=LEAST_RATE, le=MOST_RATE, allow_inf_nan=False, strict=True)]
OperatorTypes = Annotated[
    tuple[Literal[MATRIX_OPERATORS], ...],  # type: ignore[valid-type]
    BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),
]


class Part(BaseModel):
    """Base of every part of a description: immutable, nothing unknown, no silent conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_by_name=False, validate_by_alias=True)


class Host(Part):
    """The processor that runs what is not offloaded."""

    name: str = Field("host", description="What it is called in plans and reports.", min_length=1, max_length=200)
    cores: Count = Field(
        1, description="Operators it can run at the same time. Each runs as in its profile; 1 is the source paper's."
    )
    estimate: str | None = Field(
        None, description="Name of an estimated host profile to use when nothing was measured, such as cortex-a72."
    )


class Bus(Part):
    """The bus that host and accelerator share."""

    bandwidth_gbps: BandwidthGbps = Field(
        alias="bandwidth", description="B_shared: what a tensor that changes the device moves at."
    )
    network_io: Literal["charged", "free"] = Field(
        "charged",
        description="Whether inputs and outputs of the whole network cross the bus where the operators that read or "
        "make them run on the accelerator, or appear there for nothing, as the source paper has it.",
    )


class Accelerator(Part):
    """A set of equal crossbars that hold weights for the whole inference.

    Rows take inputs (N), columns give outputs (M).
    """

    crossbars: Annotated[int, Field(ge=0, le=_COUNT_LIMIT)] = Field(
        description="C, crossbars on the accelerator; 0 means that nothing can be offloaded."
    )
    rows: Count = Field(description="Wordlines of a crossbar: inputs (N) it takes at once.")
    columns: Count = Field(description="Bitlines of a crossbar, in physical columns (see columns_per_weight).")
    weight_bits: Bits = Field(8, description="Bits of a stored weight.")
    cell_bits: Bits = Field(8, description="Bits one memory cell holds.")
    cells_per_weight: Count | None = Field(
        None, description="Cells side by side that hold one weight; left out: weight_bits / cell_bits, rounded up."
    )
    differential_columns: bool = Field(
        False, description="True if each weight is the difference of two columns, which doubles the columns it takes."
    )
    activation_bits: Bits = Field(8, description="Bits of an input of an MVM.")
    input_bits_per_slice: Bits | None = Field(
        None,
        description="Input bits that one pass of the converters applies; left out: all of them. Fewer mean "
        "activation_bits / input_bits_per_slice passes, rounded up, each of mvm_latency.",
    )
    mvm_latency_ns: DurationNs = Field(
        alias="mvm_latency", description="T_mvm: one matrix-vector multiplication of one crossbar with one input slice."
    )
    gate_latency_ns: DurationNs | None = Field(
        None,
        alias="gate_latency",
        description="Time from the products of one step of an LSTM, GRU or RNN to the state that the next step "
        "multiplies: its gates. Left out: recurrent operators are not offloaded.",
    )
    write_latency_ns: DurationNs | None = Field(
        None, alias="write_latency", description="Time to program one whole crossbar; needed where writing is charged."
    )
    internal_bandwidth_gbps: BandwidthGbps = Field(
        alias="internal_bandwidth", description="B_cim: what inputs and outputs of the crossbars move at."
    )
    tile_execution: Literal["parallel", "series"] = Field(
        "parallel", description="Whether the crossbars of one operator multiply at the same time or one after another."
    )
    group_packing: Literal["block_diagonal", "one_per_group", "shared_rows", "published_formula"] = Field(
        "block_diagonal",
        description="How the small matrices of a grouped or depthwise convolution are stored. block_diagonal: several "
        "in one crossbar on disjoint rows and columns, one MVM for all of them. one_per_group: each in crossbars of "
        "its own. shared_rows: side by side on the same rows, one MVM for each group in a crossbar. "
        "published_formula: counted as side by side and still one MVM for all, as equation (1) of Klein et al. 2026 "
        "reads; optimistic, as groups have inputs of their own.",
    )
    weight_write: Literal["never", "every_inference"] = Field(
        "never", description="Whether constant weights are in place before inference or are programmed in each one."
    )
    write_execution: Literal["parallel", "series"] = Field(
        "series", description="Whether the crossbars of one operator are programmed together or one after another."
    )
    allow_activation_products: bool = Field(
        False,
        description="Whether products of two activations may be offloaded; their second operand is then programmed "
        "in every inference, and that is charged.",
    )
    element_bytes: Literal["tensor", "activation"] = Field(
        "tensor",
        description="b, bytes of an element moved inside the accelerator: as the tensor is stored in the network, or "
        "activation_bits rounded up to bytes.",
    )
    operators: OperatorTypes = Field(
        MATRIX_OPERATORS, description="ONNX operator types that may be offloaded; left out: all matrix work."
    )

    @property
    def columns_per_weight(self) -> int:
        """Physical columns that one weight takes."""
        cells = self.cells_per_weight or -(-self.weight_bits // self.cell_bits)
        return cells * (2 if self.differential_columns else 1)

    @property
    def weight_columns(self) -> int:
        """M_xb, outputs of a crossbar in whole weights; leftover columns stay unused."""
        return self.columns // self.columns_per_weight

    @property
    def input_slices(self) -> int:
        """Passes of the converters for one MVM."""
        return -(-self.activation_bits // (self.input_bits_per_slice or self.activation_bits))

    @property
    def sliced_mvm_latency_ns(self) -> float:
        """One MVM of one crossbar with all slices of its input."""
        return self.mvm_latency_ns * self.input_slices

    @property
    def weights_per_crossbar(self) -> int:
        """Weights that one crossbar holds."""
        return self.rows * self.weight_columns

    @model_validator(mode="after")
    def _consistent(self) -> Accelerator:
        cells = self.cells_per_weight
        if cells is not None and cells * self.cell_bits < self.weight_bits:
            raise _inconsistent(
                "cells_per_weight",
                f"{cells} cells of {self.cell_bits} bits cannot hold a weight of {self.weight_bits} bits",
                f"Give at least {-(-self.weight_bits // self.cell_bits)}, or leave it out",
            )
        if self.weight_columns < 1:
            raise _inconsistent(
                "columns",
                f"a crossbar of {self.columns} columns is smaller than one weight, "
                f"which takes {self.columns_per_weight}",
                f"Give at least {self.columns_per_weight} columns, or more bits per cell",
            )
        if self.input_bits_per_slice is not None and self.input_bits_per_slice > self.activation_bits:
            raise _inconsistent(
                "input_bits_per_slice",
                f"a slice of {self.input_bits_per_slice} bits is wider than an input of {self.activation_bits} bits",
                "Give at most activation_bits, or leave it out",
            )
        if self.write_latency_ns is None:
            for charged, name in (
                (self.weight_write == "every_inference", "weight_write: every_inference"),
                (self.allow_activation_products, "allow_activation_products: true"),
            ):
                if charged:
                    raise _inconsistent(
                        "write_latency",
                        f"{name} charges writing, and its latency is missing",
                        "Give write_latency, such as 56us",
                    )
        return self


class DualModeChip(Part):
    """A chip whose equal arrays switch between computing and remembering (see `docs/` on the dual-mode compiler).

    Rows take inputs, columns give outputs. Cycles are cycles of `clock_hz`.
    """

    arrays: Count = Field(description="N, arrays on the chip.")
    rows: Count = Field(description="Rows of an array: inputs of the weight matrix it holds.")
    columns: Count = Field(description="Physical columns of an array.")
    columns_per_weight: Count = Field(description="Physical columns that one weight takes.")
    weight_bits: Bits = Field(8, description="Bits of a stored weight.")
    activation_bits: Bits = Field(8, description="Bits of an activation.")
    cell_bits: Bits = Field(1, description="Bits one cell holds in memory mode.")
    op_per_cycle: Rate = Field(
        description="Operations (a multiplication and an addition are two) of one computing array in a cycle."
    )
    memory_bytes_per_cycle: Rate = Field(description="D_cim: bytes one array in memory mode serves in a cycle.")
    main_bytes_per_cycle: Rate = Field(description="D_main: bytes external memory and buffer serve in a cycle.")
    buffer_bytes: SizeBytes = Field(alias="buffer", description="Ordinary on-chip buffer, beside the arrays.")
    switch_to_compute_cycles: Cycles = Field(description="L_mc: cycles to switch an array from memory to compute.")
    switch_to_memory_cycles: Cycles = Field(description="L_cm: cycles to switch an array from compute to memory.")
    write_cycles: Cycles = Field(description="Cycles to write the weights of one array.")
    write_back_bytes_per_cycle: Rate = Field(
        description="Bytes a cycle at which data leave memory arrays between segments."
    )
    clock_hz: FrequencyHz = Field(alias="clock", description="Clock, to turn cycles into time.")

    @property
    def weight_columns(self) -> int:
        """Outputs of an array in whole weights; leftover columns stay unused."""
        return self.columns // self.columns_per_weight

    @property
    def weights_per_array(self) -> int:
        """Weights that one computing array holds."""
        return self.rows * self.weight_columns

    @property
    def array_bytes(self) -> int:
        """Bytes that one array holds in memory mode, rounded down."""
        return self.rows * self.columns * self.cell_bits // 8

    @property
    def cycle_ns(self) -> float:
        """Nanoseconds of a cycle."""
        return 1e9 / self.clock_hz

    @model_validator(mode="after")
    def _consistent(self) -> DualModeChip:
        if self.weight_columns < 1:
            raise _inconsistent(
                "columns",
                f"an array of {self.columns} columns is smaller than one weight, which takes {self.columns_per_weight}",
                f"Give at least {self.columns_per_weight} columns",
            )
        if self.array_bytes < 1:
            raise _inconsistent("rows", "an array in memory mode holds less than one byte", "Give it more cells")
        return self


class Hardware(Part):
    """A hardware description: a host with a crossbar accelerator, or a dual-mode chip."""

    schema_version: Literal[1] = Field(description="Version of this format: 1.")
    name: str = Field(description="Short name, as in the file name of a preset.", min_length=1, max_length=200)
    description: str = Field("", description="What it stands for, in a sentence or two.", max_length=4000)
    sources: dict[str, str] = Field(
        default_factory=dict, description="Where each number comes from: field path to text, 'decided: …' if from us."
    )
    host: Host = Field(default_factory=lambda: Host.model_validate({}), description="The host processor.")
    bus: Bus | None = Field(None, description="The shared bus; needed with an accelerator.")
    accelerator: Accelerator | None = Field(None, description="The crossbar accelerator, for `partition`.")
    dual_mode: DualModeChip | None = Field(None, description="The dual-mode chip, for `compile`.")

    @classmethod
    def preset(cls, name: str) -> Hardware:
        """Return a preset by name.

        Raises
        ------
        InputError
            If there is no preset of that name.
        """
        from cimplan.hardware.loading import load_preset

        return load_preset(name)

    def to_description(self) -> dict[str, Any]:
        """Return the description as in the file, quantities with their units; `parse` reads it back unchanged."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    @model_validator(mode="after")
    def _complete(self) -> Hardware:
        if self.accelerator is None and self.dual_mode is None:
            raise _inconsistent(
                "", "the description has neither an accelerator nor a dual_mode chip", "Add one of the two sections"
            )
        if self.accelerator is not None and self.bus is None:
            raise _inconsistent(
                "bus", "an accelerator needs the bus it shares with the host", "Add `bus:` with `bandwidth: 20.48GB/s`"
            )
        return self


def _inconsistent(field: str, why: str, fix: str) -> PydanticCustomError:
    return PydanticCustomError("inconsistent", "{why}", {"why": why, "fix": fix, "field": field})
