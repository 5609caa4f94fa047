"""A release of a package to all tasks of a cell: `python -m tests.bench.upgrade --tasks 100000 [--containers 3000]`.

In simulation (`tests.simulation.upgrade`, which says what is real and what a model from measured figures): virtual
minutes from the last write to the end of the last job's rollout under the default blast radius. What a container needs
to take in a delta is measured here first, with the real code at this size.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from penstock.control.logs import configure
from penstock.tasks.spec import TaskTemplate
from penstock.wire.cluster import Snapshot
from services.task_manager.specs.spec_cache import updated
from tests.bench.report import finish, say
from tests.simulation.upgrade import Figures, Upgrade
from tests.support.store.jobs import make_config

DELTA_SHARE = 0.03
TRIES = 3
DISK_BYTES_PER_SECOND = 200e6


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--containers", type=int, default=3000)
    parser.add_argument("--tasks-per-job", type=int, default=10)
    parser.add_argument("--idle", type=float, default=0.0, help="share of jobs without input: healthy by time alone")
    asked = parser.parse_args()
    configure("bench", log_format="console", level="ERROR")
    finish(measure(asked.tasks, asked.containers, asked.tasks_per_job, asked.idle))


def measure(tasks: int, containers: int, tasks_per_job: int, idle: float = 0.0) -> dict[str, float | None]:
    """Simulates the release. `minutes` is None when it does not end."""
    begin = time.monotonic()
    take_in_seconds = _measure_delta(tasks, tasks_per_job)
    figures = replace(Figures(), take_in=take_in_seconds, idle=idle)
    cell = Upgrade(tasks, containers, tasks_per_job, figures)
    cell.run()
    say(f"{len(cell.jobs)} jobs, {cell.limit} may be disrupted at once, {cell.most_at_once} were; {cell.rounds} rounds")
    for complaint in cell.complaints:
        say(f"VIOLATION {complaint}")
    return {
        "minutes": None if cell.seconds is None else round(cell.seconds / 60, 2),
        "wall_s": round(time.monotonic() - begin, 1),
        "tasks": tasks,
        "containers": containers,
        "jobs": len(cell.jobs),
        "take_in_s": round(take_in_seconds, 3),
        "violations": len(cell.complaints),
    }


def _measure_delta(tasks: int, tasks_per_job: int) -> float:
    """A Task Manager's seconds for one delta of so many jobs: CPU, and the rows on a disk of 200 MB/s."""
    config = make_config(task_count=tasks_per_job, inputs={"events": {"key_groups": 64}})
    jobs = tasks // tasks_per_job
    known = updated(None, _snapshot(config, range(jobs), 1, full=True))
    delta = _snapshot(config, range(max(1, int(DELTA_SHARE * jobs))), 2, full=False).model_dump_json()
    return min(_take_in(known, delta) for _ in range(TRIES))


def _take_in(known: object, delta: str) -> float:
    begin = time.process_time()
    snapshot = Snapshot.model_validate_json(delta)
    updated(known, snapshot)  # type: ignore[arg-type]
    stored = snapshot.model_dump_json()
    return time.process_time() - begin + len(stored) / DISK_BYTES_PER_SECOND


def _snapshot(config: object, jobs: range, commit_number: int, *, full: bool) -> Snapshot:
    templates = tuple(
        TaskTemplate.model_validate(
            {
                "job": f"job-{number:05d}",
                "commit_number": commit_number,
                "revision": commit_number,
                "generation": 1,
                "restarts": 0,
                "config": config,
            }
        )
        for number in jobs
    )
    return Snapshot(full=full, commit_number=commit_number, shard_count=len(jobs) * 10, templates=templates)


if __name__ == "__main__":
    main()
