"""The README and the docs run: console commands, files they show, and Python sessions."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```\s*$", re.MULTILINE | re.DOTALL)
NOT_RUN = {"text", "sh", "json", "ebnf", "mermaid", ""}


@dataclass(frozen=True)
class Block:
    kind: str
    options: dict[str, str]
    body: str


def blocks(page: Path) -> list[Block]:
    found = []
    for match in FENCE.finditer(page.read_text(encoding="utf-8")):
        kind, *rest = match["info"].split() or [""]
        found.append(Block(kind, dict(item.split("=", 1) for item in rest if "=" in item), match["body"]))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_shows_works(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        if "file" in block.options:
            Path(block.options["file"]).write_text(block.body, encoding="utf-8")
        elif block.kind == "console":
            run_console(block.body)
        elif block.kind == "python":
            run_session(block.body, page.name)
        else:
            assert block.kind in NOT_RUN | {"yaml"}, f"{page.name}: what is a {block.kind!r} block?"


def run_console(body: str) -> None:
    """Run every ``$ cimplan …`` line; what it prints is not compared, because times differ."""
    for line in body.splitlines():
        if not line.startswith("$ "):
            continue
        words = shlex.split(line[2:], comments=True)
        assert words[0] == "cimplan", line
        done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def run_session(body: str, name: str) -> None:
    test = doctest.DocTestParser().get_doctest(body, {}, name, name, 0)
    assert test.examples, f"{name}: a Python block is a session with >>>"
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_inside_the_project_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
