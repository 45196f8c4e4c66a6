"""The long run: ``python -m tests.fuzz`` from the top of the repository."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from random import Random

from .campaign import line_of, run
from .seeds import KINDS


def main() -> int:
    """Run or resume; return 1 if there are faults."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "--folder", type=Path, default=Path(".fuzz"), help="of seeds, records, faults; resumed if there"
    )
    parser.add_argument("--kinds", default=",".join(KINDS), help="comma-separated, of %(default)s")
    parser.add_argument("--cases", type=int, default=20_000, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hours", type=float, default=3.0, help="stop then; the same command goes on")
    parser.add_argument("--input", type=Path, help="run one saved input of a fault again, and show what it comes to")
    chosen = parser.parse_args()
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]
    chosen.folder.mkdir(parents=True, exist_ok=True)
    if chosen.input is not None:
        from .cases import Bench

        kind = chosen.input.name.partition("-")[0]
        bench = Bench(chosen.folder.resolve() / "seeds", chosen.folder.resolve() / "bench-one")
        outcome = bench.run_content(kind, chosen.input.read_bytes(), Random(0))
        print(f"{outcome.result} in {outcome.seconds:.2f} s {outcome.signature}\n{outcome.detail}")
        return int(bool(outcome.signature))
    began = time.monotonic()
    kinds = tuple(chosen.kinds.split(","))
    records = run(
        chosen.folder,
        kinds=kinds,
        cases=chosen.cases,
        seed=chosen.seed,
        until=began + chosen.hours * 3600,
        say=lambda line: print(line, flush=True),
    )
    print()
    for record in records.values():
        print(line_of(record))
    print(f"took {time.monotonic() - began:.0f} s; inputs of faults are in {chosen.folder / 'faults'}")
    return int(any(record.faults for record in records.values()))


if __name__ == "__main__":
    sys.exit(main())
