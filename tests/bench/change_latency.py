"""From a REST write to the running task: `python -m tests.bench.change_latency [--changes 50]`.

One job of two tasks on a warm stack; each change is an override of `trigger_interval_seconds`, a restart-kind field.
The clock starts before the PATCH and ends when the container runs every task of the job at the write's revision, as
seen at the Task Manager itself, asked every 10 ms.
"""

from __future__ import annotations

import argparse
import time

import httpx

from penstock.control.process import wait_until
from penstock.local.services import task_manager_name
from penstock.local.stack import LocalStack
from penstock.local.topics import create_topics
from tests.bench.report import finish, percentile, say, temporary_stack
from tests.support.config.jobs import job

JOB, TASKS, TOPIC = "latency", 2, "latency-input"


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=50)
    changes = parser.parse_args().changes
    with temporary_stack(task_managers=1) as stack:
        figures = measure(stack, changes)
    finish(figures)


def measure(stack: LocalStack, changes: int, warm: int = 3) -> dict[str, float]:
    """Starts the job, makes `warm` changes that do not count and `changes` that do, and deletes the job."""
    _start_job(stack)
    seconds = [_change(stack, number) for number in range(warm + changes)][warm:]
    with stack.client() as client:
        client.delete_job(JOB)
    say(f"{changes} changes: fastest {min(seconds):.2f} s, slowest {max(seconds):.2f} s")
    return {"p50_s": percentile(seconds, 0.5), "p99_s": percentile(seconds, 0.99), "changes": len(seconds)}


def _start_job(stack: LocalStack) -> None:
    create_topics(stack.plan.kafka_bootstrap, {TOPIC: 8})
    config = job(
        {
            "inputs": {"flights": {"topic": TOPIC}},
            "tables": None,
            "output": {"type": "files", "path": str(stack.data_dir / "outputs" / "latency"), "topic": None},
            "task_count": TASKS,
        }
    )
    with stack.client() as client:
        client.put_job(JOB, config)
        wait_until(lambda: client.get_job(JOB).converged, 90, "the job to converge", poll_s=0.1)


def _change(stack: LocalStack, number: int) -> float:
    """Seconds from before the write until the tasks run with it."""
    containers = [task_manager_name(index + 1) for index in range(stack.task_managers)]
    urls = [f"{stack.plan.url(name)}/v1/tasks" for name in containers]
    with stack.client() as client, httpx.Client() as watcher:
        version = client.get_layer(JOB, "oncall").version
        started = time.perf_counter()
        written = client.patch_layer(
            JOB, "oncall", {"trigger_interval_seconds": 5 + number % 7}, if_match=version, reason="bench"
        )
        wait_until(lambda: _runs(watcher, urls, written.revision), 60, f"revision {written.revision}", poll_s=0.01)
        return time.perf_counter() - started


def _runs(watcher: httpx.Client, urls: list[str], revision: int) -> bool:
    tasks = [task for url in urls for task in watcher.get(url).json()["tasks"] if task["job"] == JOB]
    running = [task for task in tasks if task["state"] == "running" and task["revision"] >= revision]
    return len(running) == TASKS


if __name__ == "__main__":
    main()
