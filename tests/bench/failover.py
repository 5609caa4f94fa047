"""A machine dies: `python -m tests.bench.failover [--kills 5] [--timers default short]`.

Three containers run eight tasks that count rows, which keep coming. Again and again the container with the most tasks
is killed (`kill -9` of its group; its hosts die with it) and stays away until each of its tasks has committed a batch
elsewhere. A figure is of one task: seconds from the kill to its first commit elsewhere. `default`: the
periods of Turbine (heartbeat 10 s, lease 40 s, fail-over 60 s); `short`: 1 s, 6 s, 10 s. In the end every row
must have been counted once. The lines before say where the time went.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from penstock.control.process import wait_until
from penstock.local.services import task_manager_name
from penstock.local.stack import LocalStack
from services.task_manager.decide.model import HostPhase
from tests.bench.report import finish, percentile, say, temporary_stack
from tests.support import calls
from tests.support.identity import OBSERVER, auth
from tests.support.stack.counts import KEY_GROUPS, CountJob

CONTAINERS, JOBS = 3, 2
TRIGGER_S, PAUSE_S = 2.0, 1.0
DEATH_S, RECOVER_S = 10.0, 240.0
TIMERS: Mapping[str, Mapping[str, object]] = {
    "default": {},
    "short": {
        "PENSTOCK_HEARTBEAT_SECONDS": 1,
        "PENSTOCK_HEARTBEAT_TIMEOUT_SECONDS": 2,
        "PENSTOCK_RETRY_SECONDS": 0.5,
        "PENSTOCK_CONTAINER_LEASE_SECONDS": 6,
        "PENSTOCK_LEASE_STOP_SECONDS": 3,
        "PENSTOCK_FAIL_OVER_SECONDS": 10,
    },
}
Task = tuple[str, int]


class Split(NamedTuple):
    """Where the time of a fail-over went, in seconds after the kill."""

    lost: float
    given: float
    started: float
    committed: float

    def __str__(self) -> str:
        return (
            f"declared lost at {self.lost:.1f} s, shards given after {self.given - self.lost:.2f} s more, last task "
            f"started after {self.started - self.given:.2f} s more, last commit after "
            f"{self.committed - self.started:.2f} s more"
        )


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--timers", nargs="+", choices=TIMERS, default=list(TIMERS))
    arguments = parser.parse_args()
    figures: dict[str, Any] = {"kills": arguments.kills}
    for timers in arguments.timers:
        environment = {name: str(value) for name, value in TIMERS[timers].items()} | {"PENSTOCK_LOG_FORMAT": "json"}
        with temporary_stack(task_managers=CONTAINERS, environment=environment) as stack:
            say(f"{timers}:")
            seconds = measure(stack, arguments.kills, JOBS)
        figures[f"{timers}_p50_s"] = percentile(seconds, 0.5)
        figures[f"{timers}_p99_s"] = percentile(seconds, 0.99)
    finish(figures, places=2)


def measure(stack: LocalStack, kills: int, job_count: int) -> list[float]:
    """Seconds of each task that a kill moved. `stack` logs JSON and has at least two containers; all are live again
    at the end. Raises AssertionError when a row was not counted, or counted twice."""
    jobs = [CountJob(stack, f"failover-{number}") for number in range(job_count)]
    for job in jobs:
        job.create(KEY_GROUPS, TRIGGER_S)
    with ExitStack() as feeding:
        for job in jobs:
            feeding.enter_context(job.fed(PAUSE_S))
            job.wait_for_a_count()
        seconds = [one for number in range(kills) for one in _kill(stack, jobs, f"kill {number + 1}")]
    for job in jobs:
        job.wait_counted()
        job.assert_exact()
        job.delete()
    say(f"{len(seconds)} tasks of {kills} containers went on elsewhere, {len(jobs)} results are exact")
    return seconds


def _kill(stack: LocalStack, jobs: list[CountJob], title: str) -> list[float]:
    """Kills the container with the most tasks; seconds until each of them committed elsewhere."""
    wait_until(
        lambda: _is_well(stack, jobs), RECOVER_S, "all containers to be live and warm, and all tasks to run", poll_s=0.2
    )
    homes = _homes(stack, jobs)
    victim = max(set(homes.values()), key=list(homes.values()).count)
    tasks = [task for task, home in homes.items() if home == victim]
    wait_until(lambda: all(_commits(stack, task) for task in tasks), RECOVER_S, "the tasks to commit", poll_s=0.2)
    hosts = psutil.Process(stack.supervisor.pid(victim)).children(recursive=True)
    killed_at = time.time()
    stack.supervisor.take_down(victim)
    try:
        psutil.wait_procs(hosts, DEATH_S)
        seconds = [at - killed_at for at in _first_commits(stack, tasks)]
        split = _split(stack, victim, tasks, killed_at, max(seconds))
        say(f"{title}: {victim} with {len(tasks)} tasks; {split}; load average {os.getloadavg()[0]:.0f}")
    finally:
        stack.supervisor.bring_up(victim)
        stack.supervisor.wait_ready(victim)
    return seconds


def _is_well(stack: LocalStack, jobs: list[CountJob]) -> bool:
    with stack.client() as client:
        states = {view.state for view in client.containers().containers}
        run = all(client.get_job(job.name).converged for job in jobs)
    return states == {"live"} and run and all(_is_warm(stack, name) for name in _containers(stack))


def _containers(stack: LocalStack) -> list[str]:
    return [task_manager_name(index + 1) for index in range(stack.task_managers)]


def _is_warm(stack: LocalStack, container: str) -> bool:
    """Whether a container has its warm host: one that came just now is no heir as containers usually are."""
    hosts = calls.get(f"{stack.plan.url(container)}/v1/tasks", auth=auth(OBSERVER, stack.plan.identity_dir)).json()[
        "hosts"
    ]
    return any(host["phase"] == HostPhase.READY.value for host in hosts)


def _homes(stack: LocalStack, jobs: list[CountJob]) -> dict[Task, str]:
    """The container of each task, as reported."""
    with stack.client() as client:
        found = {(job.name, task.index): task.container for job in jobs for task in client.tasks(job.name).tasks}
    return {task: container for task, container in found.items() if container is not None}


def _first_commits(stack: LocalStack, tasks: list[Task]) -> list[float]:
    """When each task commits its next batch, in seconds since 1970. Noted at once: old commits are soon deleted."""
    before = {task: _last_commit(stack, task)[0] for task in tasks}
    found: dict[Task, float] = {}

    def all_found() -> bool:
        for task in before.keys() - found.keys():
            number, at = _last_commit(stack, task)
            if number > before[task]:
                found[task] = at
        return len(found) == len(tasks)

    wait_until(all_found, RECOVER_S, "the tasks to commit elsewhere")
    return list(found.values())


def _last_commit(stack: LocalStack, task: Task) -> tuple[int, float]:
    """Number and time of the newest commit, of a task that has one."""
    newest = max(_commits(stack, task))
    return newest, (_commits_folder(stack, task) / str(newest)).stat().st_mtime


def _commits(stack: LocalStack, task: Task) -> list[int]:
    folder = _commits_folder(stack, task)
    return [int(file.name) for file in folder.iterdir() if file.name.isdigit()] if folder.exists() else []


def _commits_folder(stack: LocalStack, task: Task) -> Path:
    job, index = task
    return stack.data_dir / "checkpoints" / job / "g1" / f"task-{index}" / "commits"


def _split(stack: LocalStack, victim: str, tasks: list[Task], killed_at: float, committed: float) -> Split:
    """From the logs of the Shard Manager and of the other containers."""
    names = {f"{job}/{index}" for job, index in tasks}
    heirs = [name for name in _containers(stack) if name != victim]
    lost = [at for at, line in _log(stack, "shard_manager", "container lost", killed_at) if line["container"] == victim]
    given = [at for heir in heirs for at, _ in _log(stack, heir, "shards added", killed_at)]
    given += [at for heir in heirs for at, _ in _log(stack, heir, "shards changed", killed_at)]
    started = [at for h in heirs for at, line in _log(stack, h, "task starts", killed_at) if line["task"] in names]
    return Split(min(lost), min(at for at in given if at >= min(lost)), max(started), committed)


def _log(stack: LocalStack, process: str, event: str, since: float) -> Iterator[tuple[float, dict[str, Any]]]:
    """The lines of an event since a time, with their seconds after it."""
    for text in stack.supervisor.log_path(process).read_text().splitlines():
        if event not in text:
            continue
        line = json.loads(text)
        at = datetime.fromisoformat(line["timestamp"]).timestamp() - since
        if line["event"] == event and at > 0:
            yield at, line


if __name__ == "__main__":
    main()
