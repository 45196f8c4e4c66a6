"""The trust page lists what the lock files install, and none of it is copyleft that reaches users."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| ([a-z0-9-]+) \| ([^|]+) \|", PAGE.partition("|---|")[2], re.MULTILINE))


def locked(name: str) -> dict[str, str]:
    """Return each package of a lock file with the block of its lines."""
    blocks = re.split(r"^(?=[A-Za-z0-9_.-]+==)", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", block.partition("==")[0]).lower(): block for block in blocks if "==" in block}


def test_the_page_lists_the_licence_of_every_locked_package():
    names = {name for kind in ("", "-dev", "-build") for name in locked(f"requirements{kind}.lock")}
    assert set(ROWS) == names, "renew it with .ci/licences --write"


def test_no_licence_is_copyleft_beyond_its_own_files():
    assert not [name for name, licence in ROWS.items() if re.search(r"GPL|Affero|GNU", licence)]
    # MPL-2.0 binds changes of its own files only.
    assert {name for name, licence in ROWS.items() if "MPL" in licence} <= {"hypothesis", "pathspec", "tqdm"}


def test_every_locked_package_has_hashes_and_the_build_asks_for_no_other_version():
    everything = locked("requirements-dev.lock")
    for kind in ("", "-dev", "-build"):
        for name, block in locked(f"requirements{kind}.lock").items():
            assert "--hash=sha256:" in block, name
            if name in everything:
                assert block.splitlines()[0] == everything[name].splitlines()[0]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", ".ci/run"])
def test_every_installation_is_locked_and_without_build_isolation(page):
    steps = [
        step
        for step in re.split(r"&&|\n", (ROOT / page).read_text(encoding="utf-8"))
        if re.search(r"\bpip\b.* -", step)
    ]
    packages = [step for step in steps if " -r requirements" in step]
    itself = [step for step in steps if "--no-deps" in step]
    assert packages and itself
    for step in packages:
        assert "--require-hashes" in step and "-r requirements-build.lock" in step
    for step in itself:
        assert "--no-build-isolation" in step
