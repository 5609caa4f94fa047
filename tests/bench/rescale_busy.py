"""A rescale beside processes that burn all cores, through the whole stack: `tests.bench.rescale --busy`.

Two jobs that count rows go from 2 tasks to 3, first on a quiet machine, then while each core has a process of the
bench's own that computes all the time. `slow` also has batches of about a second. A job is down from the last commit of
its old tasks to the first of its new ones. An attempt is a generation that was begun, or a plan that was taken back.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from penstock.control.process import wait_until
from penstock.local.stack import LocalStack
from tests.bench.report import say, temporary_stack
from tests.support.stack.counts import CountJob

TRIGGER_S = 1.0
PAUSE_S = 0.5
BEFORE, AFTER = 2, 3
ENVIRONMENT = {"PENSTOCK_STATE_SYNCER_BLAST_SHARE": "1"}
LONGEST_S = 900.0
HASHED_WORDS = 1_000_000
"""A SHA-512 of so many words takes about 50 ms."""


class SlowCountJob(CountJob):
    """Each row takes some 50 ms of CPU, so that a batch is seldom over when it is to stop."""

    def config(self, task_count: int, trigger_interval_seconds: float) -> dict[str, Any]:
        config = super().config(task_count, trigger_interval_seconds)
        slow = f"SELECT word, id FROM rows WHERE sha2(repeat(word, {HASHED_WORDS}), 512) = word OR id >= 0"
        sql = f"SELECT word, count(*) AS n, sum(id) AS total FROM ({slow}) GROUP BY word"
        return config | {"query": {"sql": sql}}


CASES = {"small": CountJob, "slow": SlowCountJob}


def busy() -> dict[str, dict[str, float]]:
    """`measure` on a stack of its own."""
    with temporary_stack(task_managers=2, environment=ENVIRONMENT) as stack:
        return measure(stack, CASES, os.cpu_count() or 1)


def measure(stack: LocalStack, cases: Mapping[str, type[CountJob]], burners: int) -> dict[str, dict[str, float]]:
    """By case: `downtime_s` and `attempts` beside the burning processes, and the same on a quiet machine."""
    figures = {}
    for name, kind in cases.items():
        quiet = _rescaled(stack, kind, f"{name}-quiet")
        with burning(burners):
            loaded = _rescaled(stack, kind, f"{name}-busy")
        figures[name] = {
            "downtime_s": loaded["downtime_s"],
            "attempts": loaded["attempts"],
            "quiet_downtime_s": quiet["downtime_s"],
            "quiet_attempts": quiet["attempts"],
            "ratio": loaded["downtime_s"] / quiet["downtime_s"],
        }
        say(f"{name}: {figures[name]}")
    return figures


@contextmanager
def burning(count: int) -> Iterator[None]:
    """So many processes compute all the time, until this is closed."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_burn, daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def _burn() -> None:
    number = 1
    while True:
        number = number * 1_103_515_245 + 12_345 & 0x7FFFFFFF


def _rescaled(stack: LocalStack, kind: type[CountJob], name: str) -> dict[str, float]:
    job = kind(stack, name)
    job.create(BEFORE, TRIGGER_S)
    with job.fed(PAUSE_S):
        job.wait_for_a_count()
        before, asked_at = job.generation(), time.time()
        job.rescale(AFTER)
        failures = _failures_until_another_generation_runs(job, before)
        change = job.wait_changed(before, asked_at, AFTER)
        begun = job.generation() - before
    job.wait_counted()
    job.assert_exact()
    job.delete()
    return {"downtime_s": change.down_s, "attempts": max(begun, 1 + failures)}


def _failures_until_another_generation_runs(job: CountJob, before: int) -> int:
    """The most plans in a row that failed; one that was taken back has begun no generation."""
    seen = [0]

    def runs() -> bool:
        sync = job.sync()
        seen.append(sync.failures)
        return sync.plan is None and sync.generation is not None and sync.generation > before

    wait_until(runs, LONGEST_S, f"{job.name} to run another generation", poll_s=0.1)
    return max(seen)
