"""The parts, networks and sizes of the CMSwitch evaluation: what `cmswitch` computes again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cimplan.explore.cmswitch_readings import VARIANTS, Variant
from cimplan.explore.parts import choose_parts

END_TO_END: Final = "end-to-end"
SEQUENCE: Final = "sequence"
BATCH: Final = "batch"
ALLOCATION: Final = "allocation"
VGG16: Final = "vgg16"
SWITCHING: Final = "switching"
COMPILE_TIME: Final = "compile-time"
READINGS: Final = "readings"
PROGRAMS: Final = "programs"
PARTS: Final = (
    END_TO_END,
    SEQUENCE,
    BATCH,
    ALLOCATION,
    VGG16,
    SWITCHING,
    COMPILE_TIME,
    READINGS,
    PROGRAMS,
)


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """A network with its sizes.

    Attributes
    ----------
    model : str
        Reference network.
    batch : int
        Inferences at a time.
    seq : int or None
        Tokens of a sequence, or in decode those in the cache; None for an image network.
    phase : str
        "prefill" or "decode"; empty for an image network.
    layers : int or None
        Fewer layers than the network has, for a quick look; None for all.
    """

    model: str
    batch: int = 1
    seq: int | None = None
    phase: str = ""
    layers: int | None = None

    @property
    def parameters(self) -> dict[str, int | str]:
        """What the reference network is built with."""
        values: dict[str, int | str | None] = {
            "batch": self.batch,
            "seq": self.seq,
            "phase": self.phase if self.phase == "decode" else None,
            "layers": self.layers,
        }
        return {name: value for name, value in values.items() if value is not None}

    @property
    def reference(self) -> str:
        """The network as a user writes it."""
        return f"zoo:{self.model}?" + "&".join(f"{name}={value}" for name, value in self.parameters.items())


@dataclass(frozen=True)
class Evaluation:
    """What is evaluated: the paper's networks and sizes, or a smaller choice of them.

    Attributes
    ----------
    networks : tuple of str
        Of the end-to-end table.
    batches : tuple of int
        Batch sizes; the first is that of single cases.
    sequence : int
        Sequence length where it is not swept.
    sweep, sweep_batch : str, int
        Network of the long sweep over sequence lengths, and its batch size.
    sweep_lengths : tuple of int
        Its sequence lengths.
    second_sweep, second_lengths : str, tuple of int
        Network of the other sweep, at the first batch size, and its sequence lengths.
    layers : int or None
        Layers of transformers; None for all.
    variants : tuple of Variant
        Readings and numbers of the chip to vary.
    """

    networks: tuple[str, ...] = ("bert_large", "llama2_7b", "opt_13b", "mobilenet_v2", "resnet18", "vgg16")
    batches: tuple[int, ...] = (1, 4, 16)
    sequence: int = 64
    sweep: str = "opt_6_7b"
    sweep_batch: int = 8
    sweep_lengths: tuple[int, ...] = (32, 64, 128, 256, 512, 1024, 2048)
    second_sweep: str = "bert_large"
    second_lengths: tuple[int, ...] = (32, 64, 128, 256, 512, 1024)
    layers: int | None = None
    variants: tuple[Variant, ...] = VARIANTS

    def case(self, model: str, *, batch: int | None = None, seq: int | None = None, phase: str = "prefill") -> Case:
        """Return a case of a network; sizes that are left out are those of the table."""
        batch = self.batches[0] if batch is None else batch
        if not is_transformer(model):
            return Case(model, batch)
        return Case(model, batch, seq or self.sequence, phase, self.layers)

    def phases(self) -> tuple[str, ...]:
        """Return the phases of the long sweep."""
        return ("prefill", "decode") if _decodes(self.sweep) else ("prefill",)

    def table(self) -> list[Case]:
        """Return the cases of the end-to-end table, one a network."""
        return [self.case(model) for model in self.networks]

    def long_sweep(self) -> list[Case]:
        """Return the cases of the sweep over sequence lengths."""
        return [
            self.case(self.sweep, batch=self.sweep_batch, seq=seq, phase=phase)
            for phase in self.phases()
            for seq in self.sweep_lengths
        ]

    def cases(self, part: str) -> list[Case]:
        """Return the cases of a part."""
        if part in (SEQUENCE, PROGRAMS):
            second = [self.case(self.second_sweep, seq=seq) for seq in self.second_lengths]
            return self.long_sweep() + (second if part == SEQUENCE else self.table())
        if part in (BATCH, END_TO_END):
            return [self.case(model, batch=batch) for model in self.networks for batch in self.batches]
        if part == ALLOCATION:
            chosen = [self.case(self.sweep, batch=self.sweep_batch)]
            return chosen + [self.case(model) for model in ("bert_large", "vgg16") if model in self.networks]
        if part == VGG16:
            return [self.case("vgg16")] if "vgg16" in self.networks else []
        return self.table()


PAPER: Final = Evaluation()


def parse_parts(only: Iterable[str]) -> tuple[str, ...]:
    """Return the parts a user asks for; see `choose_parts`."""
    return choose_parts(only, PARTS)


def is_transformer(model: str) -> bool:
    """Tell whether a reference network reads tokens: these are the ones that carry no weights."""
    from cimplan.zoo import describe

    return describe(model).weightless


def _decodes(model: str) -> bool:
    from cimplan.zoo import describe

    choices = next((item.choices for item in describe(model).params if item.name == "phase"), ())
    return "decode" in choices
