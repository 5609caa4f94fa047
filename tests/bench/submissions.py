"""New jobs accepted and converged in the store, without Spark: `python -m tests.bench.submissions [--jobs 2000]`.

A job counts when its running revision is its expected one: it went through the Job Service (validated, merged,
written with history) and the State Syncer (merged, classified, committed). One job a call, from four clients at once;
then the same number again in batches of 500.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from penstock.control.process import wait_until
from penstock.local.stack import LocalStack
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import BatchAction, BatchWrite
from tests.bench.report import finish, percentile, say, temporary_stack
from tests.support.config.jobs import job

Make = Callable[[int], dict[str, Any]]
CLIENTS = 4
BATCH = 500


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2000)
    count = parser.parse_args().jobs
    with temporary_stack(task_managers=0) as stack:
        figures = measure(stack, count)
    finish(figures)


def measure(stack: LocalStack, count: int, **config: Any) -> dict[str, float]:
    """Submits `2 * count` jobs, all converged at the end. `config` is merged into each (`desired_state`, say)."""
    tables = {"planes": {"path": f"{stack.data_dir}/outputs/planes"}}
    make = partial(config_of, {"tables": tables, **config})
    _submit_one_by_one(stack, "warm", min(20, count), make)
    single_s, accepted_s, latencies = _submit_one_by_one(stack, "single", count, make)
    say(f"{count} calls of {CLIENTS} clients: accepted in {accepted_s:.1f} s, converged in {single_s:.1f} s")
    say(f"a call: p50 {1000 * percentile(latencies, 0.5):.1f} ms, p99 {1000 * percentile(latencies, 0.99):.1f} ms")
    batch_s = _submit_in_batches(stack, "batch", count, make)
    say(f"{count} jobs in batches of {BATCH}: converged in {batch_s:.1f} s")
    return {
        "jobs_per_s": count / single_s,
        "jobs_per_s_in_batches": count / batch_s,
        "p99_s": percentile(latencies, 0.99),
    }


def _submit_one_by_one(stack: LocalStack, prefix: str, count: int, make: Make) -> tuple[float, float, list[float]]:
    clients = [stack.client() for _ in range(CLIENTS)]

    def submit(number: int) -> float:
        started = time.perf_counter()
        clients[number % CLIENTS].put_job(f"{prefix}-{number}", make(number), verify=False)
        return time.perf_counter() - started

    started = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        latencies = list(pool.map(submit, range(count)))
    accepted = time.perf_counter() - started
    wait_converged(stack, prefix, count)
    return time.perf_counter() - started, accepted, latencies


def _submit_in_batches(stack: LocalStack, prefix: str, count: int, make: Make) -> float:
    started = time.perf_counter()
    with stack.client() as client:
        for first in range(0, count, BATCH):
            numbers = range(first, min(first + BATCH, count))
            submit_batch(client, {f"{prefix}-{n}": make(n) for n in numbers})
    wait_converged(stack, prefix, count)
    return time.perf_counter() - started


def submit_batch(client: JobClient, jobs: Mapping[str, Mapping[str, Any]]) -> None:
    """Writes so many configurations in one call. Raises RuntimeError when one is refused."""
    writes = [BatchWrite(action=BatchAction.PUT_JOB, job=name, config=dict(config)) for name, config in jobs.items()]
    if refused := [result for result in client.batch(writes) if result.written is None]:
        raise RuntimeError(f"refused: {refused[0]}")


def config_of(more: Mapping[str, Any], number: int) -> dict[str, Any]:
    """A configuration with a topic of its own."""
    return job({"inputs": {"flights": {"topic": f"topic-{number}"}}, **more})


def wait_converged(stack: LocalStack, prefix: str, count: int, within_s: float = 120.0) -> None:
    """Returns once so many jobs of this prefix run their newest revision."""
    with stack.client() as client:

        def all_run() -> bool:
            jobs = list(client.list_jobs(prefix=f"{prefix}-"))
            return len(jobs) == count and all(job.running_revision == job.revision for job in jobs)

        wait_until(all_run, within_s, f"{count} jobs to converge", poll_s=0.1)


if __name__ == "__main__":
    main()
