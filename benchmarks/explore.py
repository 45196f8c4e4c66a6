"""A sweep of 2,000 points on local processes and on a Dask cluster, beside solving each point on its own.

    python benchmarks/explore.py
    python benchmarks/explore.py --models resnet18,mobilenet_v2 --sample 20 --no-dask

4 networks x 5 MVM latencies x 5 bus bandwidths x 20 crossbar budgets, each proven optimal. The sweep is timed as a user
runs it, from the command to the table on the disk, with an empty store and models already built. Points of a random
sample are then solved one by one, each for its budget alone, and must have the same latency as in the table.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from common import describe, machine, table, write

CIMPLAN = [sys.executable, "-m", "cimplan"]
MODELS = ("resnet18", "mobilenet_v2", "resnet50", "yolov5n")
HOST = "cortex-a72"
HARDWARE = "rram-256-arm"
VARY = {
    "accelerator.mvm_latency": ["50ns", "100ns", "200ns", "500ns", "1us"],
    "bus.bandwidth": ["2.56GB/s", "5.12GB/s", "10.24GB/s", "20.48GB/s", "40.96GB/s"],
    "accelerator.crossbars": {"from": 10, "to": 200, "step": 10},
}


def write_space(folder: Path, models: list[str]) -> Path:
    """Write the space; JSON is YAML."""
    path = folder / "space.yaml"
    value = {
        "schema_version": 1,
        "name": "2000-points",
        "models": [f"zoo:{model}" for model in models],
        "hardware": HARDWARE,
        "host": HOST,
        "vary": VARY,
    }
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
    return path


def sweep(folder: Path, space: Path, name: str, *options: str) -> dict[str, Any]:
    """Run the sweep into an empty store; return the table, and wall and processor seconds."""
    output = folder / f"{name}.csv"
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    store = f"sqlite:///{folder / name}.db"
    command = [*CIMPLAN, "explore", str(space), "--store", store, "-o", str(output), "--json", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    wall_s = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"the sweep ended with {done.returncode}")
    result = json.loads(done.stdout)
    return {
        "name": name,
        "points": result["points"],
        "failed": result["failed"],
        "wall_s": wall_s,
        "processor_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "points_per_s": result["points"] / wall_s,
        "table": output.read_bytes(),
    }


@contextlib.contextmanager
def cluster(folder: Path, workers: int) -> Iterator[str]:
    """Start a Dask scheduler and workers as processes of their own; give the scheduler's address."""
    file = folder / "scheduler.json"
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    dask = [sys.executable, "-m", "dask"]
    local = ["--host", "127.0.0.1", "--no-dashboard"]
    running = [subprocess.Popen([*dask, "scheduler", *local, "--port", "0", "--scheduler-file", str(file)], **quiet)]
    try:
        until = time.monotonic() + 120
        while not file.exists() or not file.read_text(encoding="utf-8").endswith("}"):
            if running[0].poll() is not None or time.monotonic() > until:
                sys.exit("the Dask scheduler did not start")
            time.sleep(0.05)
        address = json.loads(file.read_text(encoding="utf-8"))["address"]
        settings = [*local, "--nthreads", "1", "--no-nanny", "--local-directory", str(folder)]
        running += [subprocess.Popen([*dask, "worker", address, *settings], **quiet) for _ in range(workers)]
        yield address
    finally:
        # Workers first, which would go on looking for their scheduler; they hold nothing that needs a long goodbye.
        for process in reversed(running):
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def one_by_one(rows: pl.DataFrame, sample: int) -> dict[str, Any]:
    """Solve a sample of points, each on its own; return processor seconds a point, and how many latencies differ."""
    from cimplan.api import models, partitioning
    from cimplan.cost.build import build_problem
    from cimplan.hardware import load, with_overrides
    from cimplan.units import parse_bandwidth_gbps, parse_duration_ns

    numbers = sorted(random.Random(0).sample(range(rows.height), min(sample, rows.height)))
    picked = [rows.row(number, named=True) for number in numbers]
    profiles = {
        model: partitioning.estimate(models.load(model), HOST)
        for model in dict.fromkeys(row["model"] for row in picked)
    }
    partitioning.solve(build_problem(next(iter(profiles.values())), load(HARDWARE)))  # imports are not counted
    differ = 0
    by_model: dict[str, list[float]] = {}
    for row in picked:
        began = time.process_time()
        hardware = with_overrides(
            load(HARDWARE),
            crossbars=row["accelerator.crossbars"],
            mvm_latency_ns=parse_duration_ns(row["accelerator.mvm_latency"]),
            bus_bandwidth_gbps=parse_bandwidth_gbps(row["bus.bandwidth"]),
        )
        plan = partitioning.solve(build_problem(profiles[row["model"]], hardware))
        by_model.setdefault(row["model"], []).append(time.process_time() - began)
        differ += plan.makespan_ns != row["makespan_ns"] or plan.status != row["status"]
    times = [each for some in by_model.values() for each in some]
    return {
        "sample": len(picked),
        "differ": differ,
        "processor_s_per_point": sum(times) / len(times),
        "by_model": {model: sum(some) / len(some) for model, some in by_model.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS), help="reference networks, separated by commas")
    parser.add_argument("--sample", type=int, default=40, help="points to solve one by one")
    parser.add_argument("--workers", type=int, default=2, help="processes, locally and on Dask")
    parser.add_argument("--no-dask", action="store_true", help="local processes only")
    parser.add_argument("--output", type=Path, help="folder for explore.md and explore.json")
    options = parser.parse_args()
    facts = machine()
    models = options.models.split(",")
    from cimplan.api import models as known

    for model in models:
        _ = known.load(f"zoo:{model}").path
    with tempfile.TemporaryDirectory(prefix="cimplan-explore-") as name:
        folder = Path(name)
        space = write_space(folder, models)
        runs = [sweep(folder, space, "local", "--workers", str(options.workers))]
        rows = pl.read_csv(folder / "local.csv")
        again = sweep(folder, space, "local", "--workers", str(options.workers))
        if not options.no_dask:
            with cluster(folder, options.workers) as address:
                runs.append(sweep(folder, space, "dask", "--dask", address))
        alone = one_by_one(rows, options.sample)
    local = runs[0]
    statuses = dict(rows["status"].value_counts().iter_rows())
    per_point = local["processor_s"] / local["points"]
    identical = all(run["table"] == local["table"] for run in (*runs, again))
    result = {
        "machine": facts,
        "models": models,
        "points": local["points"],
        "statuses": statuses,
        "runs": [{key: value for key, value in run.items() if key != "table"} for run in runs],
        "resumed_wall_s": again["wall_s"],
        "identical_tables": identical,
        "one_by_one": alone,
        "processor_s_per_point": per_point,
        "ratio": alone["processor_s_per_point"] / per_point,
    }
    markdown = "\n\n".join(
        (
            "# Exploration",
            describe(facts),
            f"{local['points']} points ({', '.join(models)}; {HARDWARE} with {HOST}), {options.workers} workers; "
            + ", ".join(f"{count} {status}" for status, count in sorted(statuses.items())),
            table(
                ("engine", "wall s", "points a second", "failed"),
                [(run["name"], run["wall_s"], run["points_per_s"], run["failed"]) for run in runs],
            ),
            f"Tables byte for byte identical: {'yes' if identical else 'NO'}. "
            f"The same command again, all points in the store: {again['wall_s']:.1f} s.",
            f"A point in the sweep, start-up included: {1e3 * per_point:.1f} ms of processor time. "
            f"Solved on its own ({alone['sample']} points at random): {1e3 * alone['processor_s_per_point']:.1f} ms, "
            f"{result['ratio']:.1f} times as much. Latencies that differ: {alone['differ']}.",
            table(
                ("network", "one point on its own, ms"),
                [(model, 1e3 * seconds) for model, seconds in alone["by_model"].items()],
            ),
        )
    )
    write(options.output, "explore", result, markdown)
    if not identical or alone["differ"] or local["failed"]:
        sys.exit("the results do not agree")


if __name__ == "__main__":
    main()
