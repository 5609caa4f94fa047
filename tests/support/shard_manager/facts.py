"""Cells for placement as the Shard Manager knows them: containers, jobs and what their tasks use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.tasks.dimensions import CPU
from penstock.tasks.loads import JobTasks, TaskLoad
from penstock.tasks.ownership import Member
from penstock.tasks.shards import shard_of

RESERVED = {"cpu_cores": 0.25, "memory_bytes": 400.0 * 2**20, "disk_bytes": 0.0}


def member(name: str, region: str = "local", **fields: Any) -> Member:
    """A container of 4 cores, 16 GiB and 100 GiB."""
    made = Member(name, "1", f"http://{name}", region, 4.0, 2**34, 100 * 2**30)
    return made._replace(**fields)


def members(*names: str, **fields: Any) -> dict[str, Member]:
    """By name."""
    return {name: member(name, **fields) for name in names}


def job(name: str, task_count: int = 1, selector: str | None = None, priority: int = 0, **fields: Any) -> JobTasks:
    """A job that reserves little."""
    made = JobTasks(name, task_count, 1, False, RESERVED, selector, priority)
    return made._replace(**fields)


def reported(name: str, number: int = 0, cpu: float = 0.0) -> TaskLoad:
    """A task whose only known load is of the CPU."""
    return TaskLoad(name, number, 1, {CPU: cpu})


def jobs_in(shards: Mapping[int, int], shard_count: int, prefix: str = "j") -> dict[int, list[str]]:
    """Names of jobs whose task 0 is in a shard: as many by shard as are asked for."""
    found: dict[int, list[str]] = {shard: [] for shard in shards}
    number = 0
    while any(len(found[shard]) < count for shard, count in shards.items()):
        name, number = f"{prefix}{number}", number + 1
        shard = shard_of(f"{name}/0", shard_count)
        if len(found.get(shard, ())) < shards.get(shard, 0):
            found[shard].append(name)
    return found
