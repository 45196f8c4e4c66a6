"""The page on meta-operators says what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from toy_plans import toy_chip

from cimplan.program.parser import parse_program
from cimplan.program.printer import print_program
from cimplan.program.verifier import verify
from cimplan.program.violations import Rule

PAGE = (Path(__file__).parents[2] / "docs" / "meta-operators.md").read_text(encoding="utf-8")


def test_the_example_is_a_program_that_keeps_all_rules():
    text = next(block for block in re.findall(r"```\n(.*?)```", PAGE, re.DOTALL) if block.startswith("program"))
    chip = toy_chip(arrays=8, rows=64, columns=64, columns_per_weight=8, cell_bits=1)
    program = parse_program(text)
    assert print_program(program) == text
    assert verify(program, chip).ok


def test_every_rule_is_explained():
    explained = re.findall(r"^\| `(\w+)` \| ", PAGE, re.MULTILINE)
    assert sorted(explained) == sorted(get_args(Rule))


def test_every_word_of_the_language_is_in_the_grammar():
    grammar = re.search(r"```ebnf\n(.*?)```", PAGE, re.DOTALL)[1]
    words = set(re.findall(r'"([A-Za-z_.]+)"', grammar))
    source = (Path(__file__).parents[2] / "src" / "cimplan" / "program" / "parser.py").read_text(encoding="utf-8")
    used = set(re.findall(r'(?:expect|accept|_open|_names)\((?:tokens, )?"([A-Za-z_.]+)"\)', source))
    assert {"CM.switch", "matrix", "segment", "mvms"} <= used <= words
