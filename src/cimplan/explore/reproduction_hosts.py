"""Hosts to reproduce a paper on: this machine, an estimated one, or profiles measured elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cimplan.errors import InputError, did_you_mean
from cimplan.explore.published import CROSSBARS_OF_EVERYTHING, HOST_PRESETS, TITLES, PublishedHost

if TYPE_CHECKING:
    from cimplan.cost.profile_file import HostProfile
    from cimplan.hardware.schema import Hardware

MEASURED: Final = "measured"
ARM_ESTIMATE: Final = "arm-estimate"
DEFAULT_HOSTS: Final = (MEASURED, ARM_ESTIMATE)

_ESTIMATED_PROCESSOR: Final = "cortex-a72"
_ARM_ARCHITECTURES: Final = frozenset({"aarch64", "arm64", "armv7l", "armv8l", "arm"})


@dataclass(frozen=True)
class ReproductionHost:
    """A host, the networks it has times for, and the published host it stands beside.

    Attributes
    ----------
    key : str
        ``"measured"``, ``"arm-estimate"``, or the name of the profile file or folder.
    published : {"x86", "arm"}
        Host of the paper with the same bus.
    hardware : Hardware
        Accelerator and bus.
    profiles : mapping of str to HostProfile
        By model, in the paper's order; not empty.
    """

    key: str
    published: PublishedHost
    hardware: Hardware
    profiles: Mapping[str, HostProfile]

    @property
    def origin(self) -> str:
        """Where host times are from: "measured" or "estimated"."""
        return next(iter(self.profiles.values())).origin

    @property
    def processor(self) -> str:
        """The processor the times are of."""
        return next(iter(self.profiles.values())).machine.cpu

    @property
    def title(self) -> str:
        """One line for headings."""
        return f"{self.processor} ({self.origin})"


def find_hosts(
    texts: Iterable[str], models: Sequence[str], *, say: Callable[[str], None] = lambda _text: None
) -> tuple[ReproductionHost, ...]:
    """Find hosts by what a user writes.

    Parameters
    ----------
    texts : iterable of str
        ``measured``, ``arm-estimate``, or a path: a profile file, or a folder with one per model.
    models : sequence of str
        Networks of the paper that are needed.
    say : callable, optional
        Told what is going on.

    Raises
    ------
    InputError
        If a host is not known, a profile cannot be read, is of another network, or two are of the same.
    """
    found: dict[str, ReproductionHost] = {}
    for text in dict.fromkeys(texts):
        host = _find(text, models, say)
        if host.key in found:
            raise InputError(f"two hosts are called {host.key!r}", where="--host", fix="Rename one of the profiles")
        found[host.key] = host
    return tuple(found.values())


def _find(text: str, models: Sequence[str], say: Callable[[str], None]) -> ReproductionHost:
    if text == MEASURED:
        return _host(text, {model: _measured(model, say) for model in models})
    if text == ARM_ESTIMATE:
        return _host(text, {model: _estimated(model, say) for model in models})
    path = Path(text)
    if not path.exists():
        known = (MEASURED, ARM_ESTIMATE)
        raise InputError(
            f"there is no host {text!r}",
            where="--host",
            why="it is neither measured nor arm-estimate, and there is no such file or folder",
            fix=did_you_mean(text, known) if "/" not in text else f"Give {', '.join(known)}, or a profile",
        )
    return _host(path.name, _from_files(path, models))


def _host(key: str, profiles: Mapping[str, HostProfile]) -> ReproductionHost:
    from cimplan.hardware import load

    machines = {(profile.origin, profile.machine.cpu) for profile in profiles.values()}
    if len(machines) > 1:
        raise InputError(
            "the profiles are of different machines",
            where=key,
            why="; ".join(sorted(f"{cpu} ({origin})" for origin, cpu in machines)),
            fix="Give one --host per machine",
        )
    architecture = next(iter(profiles.values())).machine.architecture.lower()
    published: PublishedHost = "arm" if architecture in _ARM_ARCHITECTURES else "x86"
    return ReproductionHost(key, published, load(HOST_PRESETS[published]), profiles)


def _measured(model: str, say: Callable[[str], None]) -> HostProfile:
    from cimplan.api import partitioning

    say(f"profile of {TITLES[model]}")
    return partitioning.profile(f"zoo:{model}", progress=lambda text: say(f"{TITLES[model]}: {text}"))


def _estimated(model: str, say: Callable[[str], None]) -> HostProfile:
    from cimplan.api import partitioning

    say(f"estimate of {TITLES[model]}")
    return partitioning.estimate(f"zoo:{model}", _ESTIMATED_PROCESSOR)


def _from_files(path: Path, models: Sequence[str]) -> Mapping[str, HostProfile]:
    from cimplan.cost.profile_file import load

    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    found: dict[str, HostProfile] = {}
    for file in files:
        profile = load(file)
        # A folder may hold profiles of other networks too.
        if path.is_dir() and _name_of(profile) not in CROSSBARS_OF_EVERYTHING:
            continue
        model = _model_of(profile, file)
        if model in found:
            raise InputError(f"there are two profiles of {model}", where=str(path), fix="Keep one per model")
        found[model] = profile
    wanted = {model: found[model] for model in models if model in found}
    if not wanted:
        have = f"it has profiles of {', '.join(found)}" if found else "it has no profile (*.json)"
        raise InputError(
            "there is no profile of a network that is needed here",
            where=str(path),
            why=f"{have}; needed: {', '.join(models)}",
            fix=f"Make one with `cimplan profile zoo:{models[0]} -o {models[0]}.json`",
        )
    return wanted


def _name_of(profile: HostProfile) -> str:
    return profile.model.name.removeprefix("zoo:").removesuffix(".onnx")


def _model_of(profile: HostProfile, file: Path) -> str:
    """Return which network of the paper a profile is of: by its name, held against the crossbars it needs."""
    from cimplan.cost.build import build_problem
    from cimplan.hardware import load

    name = _name_of(profile)
    if name not in CROSSBARS_OF_EVERYTHING:
        raise InputError(
            f"the profile is of {profile.model.name!r}, which is not a network of the paper",
            where=str(file),
            fix=f"Profile one of {', '.join(f'zoo:{known}' for known in CROSSBARS_OF_EVERYTHING)}",
        )
    needed = build_problem(profile, load(HOST_PRESETS["x86"])).crossbars_of_everything
    expected = CROSSBARS_OF_EVERYTHING[name]
    if needed != expected:
        raise InputError(
            f"the profile is named {name} and is of another network",
            where=str(file),
            why=f"its operators would fill {needed} crossbars, those of {TITLES[name]} {expected}",
            fix=f"Profile zoo:{name}",
        )
    return name
