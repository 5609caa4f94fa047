"""Runs simulations: `python -m tests.simulation --seed N` tells the story of one, `--seeds M` runs many.

The last line is one JSON object. The exit code is 1 when something did not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

from tests.simulation.world import Result, Size, simulate

PROGRESS_SEEDS = 250


def main() -> None:
    """See the module."""
    asked = _arguments()
    size = Size(
        containers=asked.containers,
        jobs=asked.jobs,
        shards=asked.shards or max(8, 2 * asked.containers),
        faults_seconds=asked.faults_seconds,
        tasks_per_job=asked.tasks,
        released=asked.released,
    )
    begin = time.monotonic()
    if asked.seed is not None:
        results = [simulate(asked.seed, size)]
        print(results[0].story)
        for complaint in results[0].complaints:
            print(f"VIOLATION {complaint}")
    else:
        results = list(_many(range(asked.first, asked.first + asked.seeds), size, asked.processes))
    print(json.dumps(_summary(results, time.monotonic() - begin)))
    sys.exit(0 if all(result.is_good for result in results) else 1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this seed and tell its story")
    parser.add_argument("--seeds", type=int, default=100, help="run so many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--containers", type=int, default=Size.containers)
    parser.add_argument("--jobs", type=int, default=Size.jobs)
    parser.add_argument("--tasks", type=int, help="tasks of each job at first; drawn from the seed when absent")
    parser.add_argument("--shards", type=int, help="two a container, and eight, when absent")
    parser.add_argument("--faults-seconds", type=float, default=Size.faults_seconds, help="virtual; 0: no faults")
    parser.add_argument("--released", type=float, default=Size.released, help="share of jobs with a last release")
    parser.add_argument("--processes", type=int, default=1)
    return parser.parse_args()


def _many(seeds: range, size: Size, processes: int) -> Iterator[Result]:
    run = partial(_untold, size=size)
    if processes == 1:
        yield from map(_told, map(run, seeds))
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from map(_told, pool.map(run, seeds, chunksize=4))


def _untold(seed: int, size: Size) -> Result:
    """What became of a seed, without its story: those of many thousands fill the memory."""
    return replace(simulate(seed, size), story="")


def _told(result: Result) -> Result:
    if not result.is_good:
        print(f"seed {result.seed}: {'; '.join(result.complaints)}", flush=True)
    elif (result.seed + 1) % PROGRESS_SEEDS == 0:
        print(f"up to seed {result.seed}", flush=True)
    return result


def _summary(results: list[Result], wall_seconds: float) -> dict[str, object]:
    converged = sorted(result.converged_seconds for result in results if result.converged_seconds is not None)
    return {
        "seeds": len(results),
        "failed": [result.seed for result in results if not result.is_good],
        "events": sum(result.events for result in results),
        "batches": sum(result.commits for result in results),
        "fenced_batches": sum(result.fenced_commits for result in results),
        "task_double_run_seconds": sum(result.double_run_seconds for result in results),
        "converged_p50_s": converged[len(converged) // 2] if converged else None,
        "converged_max_s": converged[-1] if converged else None,
        "virtual_s": round(sum(result.virtual_seconds for result in results)),
        "wall_s": round(wall_seconds, 1),
        "trace": results[0].trace if len(results) == 1 else None,
        "cpus": os.cpu_count(),
    }


if __name__ == "__main__":
    main()
