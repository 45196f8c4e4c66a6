"""Profiles of one network while other processes keep the processors busy: each is flagged, or right within 20 %.

    python benchmarks/profile_noise.py [MODEL] [--seconds 5] [--profiles 8] [--wait 600]

First quiet profiles are taken, which must not be flagged; then as many as asked for while as many busy processes as
cores run, of which every second lot starts in the middle of the measurement. Exit code 1 if a line is not right.
Whether the machine is quiet is looked up in /proc/stat, where there is one: a flagged profile counts against us only
if other processes took less than a twentieth of the processors. With --wait each quiet profile waits for such a moment.
Where the machine is never quiet, the processor time of the model's fastest runs stands in for a quiet profile.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

from cimplan.api.models import load
from cimplan.cost.profile import fastest_quarter, measure, weights_beside
from cimplan.cost.session import prepare

WITHIN = 0.2
QUIET_SHARE = 0.05
BUSY = "while True: pass"


def processor_seconds() -> tuple[float, float]:
    """Return the seconds that all processors were busy, and those that this process was, since some time."""
    try:
        words = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    except OSError:
        return 0.0, 0.0
    values = [int(word) for word in words]
    idle = values[3] + values[4]
    return (sum(values[:8]) - idle) / os.sysconf("SC_CLK_TCK"), time.process_time()


class Busy:
    """As many busy processes as cores, from some seconds on."""

    def __init__(self, count: int, after_s: float) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.ended = threading.Event()
        self.count = count
        self.thread = threading.Thread(target=self._start, args=(after_s,))

    def _start(self, after_s: float) -> None:
        if not self.ended.wait(after_s):
            self.processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(self.count)]

    def __enter__(self) -> Busy:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()
        for process in self.processes:
            process.kill()
            process.wait()


def others_share(seconds: float, cores: int) -> float:
    """Return the share of the processors that other processes take, watched for some seconds."""
    busy_before, own_before = processor_seconds()
    began = time.perf_counter()
    time.sleep(seconds)
    busy, own = processor_seconds()
    return max((busy - busy_before) - (own - own_before), 0.0) / ((time.perf_counter() - began) * cores)


def processor_time_ns(path: Path, runs: int = 100) -> float:
    """Return the processor time of a model's fastest runs on one thread."""
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare(path, Path(folder), threads=1, shapes={}, sizes={}, external=weights_beside(path), seed=0)
        times = []
        for _ in range(runs):
            began = time.thread_time_ns()
            prepared.original.run(None, prepared.feed)
            times.append(float(time.thread_time_ns() - began))
    return fastest_quarter(times)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="zoo:resnet18")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--profiles", type=int, default=8)
    parser.add_argument("--quiet-profiles", type=int, default=3)
    parser.add_argument("--wait", type=float, default=0.0, help="most seconds to wait for a quiet moment, in all")
    options = parser.parse_args()
    path = load(options.model).path
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with tempfile.TemporaryDirectory(prefix="cimplan-noise-") as folder:
        os.environ["CIMPLAN_CACHE_DIR"] = folder
        rows = []

        def take(name: str, count: int, after_s: float) -> None:
            busy_before, own_before = processor_seconds()
            began = time.perf_counter()
            with Busy(count, after_s):
                if count and not after_s:
                    time.sleep(0.5)
                profile = measure(path, time_budget_s=options.seconds)
            took = time.perf_counter() - began
            busy, own = processor_seconds()
            others = max((busy - busy_before) - (own - own_before), 0.0) / (took * cores)
            reason = profile.measurement.disturbed if profile.measurement else ""
            rows.append((name, count, profile.total_ns, reason, others))
            print(f"{name:<28} {profile.total_ns / 1e6:9.3f} ms  others {100 * others:3.0f} %  {reason}", flush=True)

        patience = time.monotonic() + options.wait
        for _ in range(options.quiet_profiles):
            while time.monotonic() < patience and others_share(1.0, cores) > QUIET_SHARE:
                time.sleep(1.0)
            take("quiet", 0, 0.0)
        for number in range(options.profiles):
            middle = number % 2 == 1
            take("busy from the middle" if middle else "busy", cores, options.seconds / 2 if middle else 0.0)
    quiet = [row for row in rows if not row[1]]
    unflagged = [row[2] for row in quiet if not row[3]]
    wrong = [f"a quiet profile is flagged: {row[3]}" for row in quiet if row[3] and row[4] < QUIET_SHARE]
    reference = median(unflagged) if unflagged else processor_time_ns(path)
    if not unflagged:
        print("the machine was never quiet: compared with the processor time of the fastest runs")
    loaded = [row for row in rows if row[1]]
    off = [row for row in loaded if not row[3] and abs(row[2] / reference - 1) > WITHIN]
    wrong += [f"{row[0]}: {row[2] / reference:.2f} times the quiet one, and not flagged" for row in off]
    flagged = sum(bool(row[3]) for row in loaded)
    print(f"quiet: {reference / 1e6:.3f} ms, {len(quiet) - len(unflagged)} of {len(quiet)} flagged")
    print(f"under load: {flagged} of {len(loaded)} flagged, {len(loaded) - flagged - len(off)} within {WITHIN:.0%}")
    for line in wrong:
        print(f"wrong: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
