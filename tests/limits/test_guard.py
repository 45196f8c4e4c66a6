"""What ends a command whose code does not look at any clock."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork")

PROGRAM = """
import sys
from pathlib import Path
from cimplan.cli import doctor, main
from cimplan.files import replacing

def work():
    with replacing(Path({path!r})) as unfinished:
        unfinished.write_text("half")
        {body}

doctor._checks = work
sys.argv = ["cimplan", "doctor", *{options!r}]
main()
"""
BODIES = {
    "python": "while True: pass",
    "native": "sum(range(10**12))",
    "memory": "held = [bytes([1]) * 10**7 for _ in range(10**6)]",
    "one allocation": "import numpy; numpy.ones(10**13, dtype='i1')",
}


@pytest.mark.parametrize(
    ("body", "options", "said"),
    [
        ("python", ["--time-limit", "1s"], "the time limit of 1 s has passed"),
        ("native", ["--time-limit", "4s"], "did not stop by itself"),
        ("memory", ["--memory-limit", "600MB"], "more memory than the limit of 600 MB"),
        ("one allocation", ["--memory-limit", "600MB"], "more memory than the limit of 600 MB"),
    ],
)
def test_a_command_ends_with_1_and_leaves_nothing_half_written(tmp_path: Path, body, options, said):
    code = PROGRAM.format(path=str(tmp_path / "out.txt"), body=BODIES[body], options=options)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert run.returncode == 1, run.stderr
    assert said in run.stderr
    assert run.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
