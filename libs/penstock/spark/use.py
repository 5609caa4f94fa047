"""What the queries of a host have used, and the load that it was between two looks. Pure; what is unknown is missing.

CPU of its own is that of a query's thread, which plans its batches, and of its Spark tasks. What the JVM does for all
of its queries (collection of garbage, compilation, Spark's scheduler, Kafka's threads) is theirs in proportion. What
Python processes use is nobody's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.config.model import KafkaOutput, Output, PostgresOutput
from penstock.tasks.dimensions import CPU, MEMORY, NETWORK

_MOST_OVERHEAD = 2.0


class Use(NamedTuple):
    """What a run of a query has used since it was started; None is unknown."""

    run: str
    cpu_seconds: float
    read_bytes: int | None
    written_bytes: int | None


def use_of(record: Mapping[str, Any], output: Output) -> Use:
    """A record of `QueryWatch.use`. Bytes are unknown where records went that nobody counted the bytes of."""
    return Use(
        run=record["run"],
        cpu_seconds=record["cpuNanos"] / 1e9,
        read_bytes=_counted(record["recordsRead"], record["bytesRead"]),
        written_bytes=_written(record, output),
    )


def load_between(before: Use | None, after: Use, seconds: float) -> dict[str, float]:
    """CPU cores and network bytes per second over `seconds`; nothing of a run that was not seen before."""
    if before is None or before.run != after.run or seconds <= 0:
        return {}
    load = {CPU: max(0.0, after.cpu_seconds - before.cpu_seconds) / seconds}
    if None not in (before.read_bytes, before.written_bytes, after.read_bytes, after.written_bytes):
        load[NETWORK] = max(0, _bytes(after) - _bytes(before)) / seconds
    return load


def with_overhead(own: Mapping[str, dict[str, float]], jvm_cores: float | None) -> dict[str, dict[str, float]]:
    """The same loads with each task's part of the CPU that its JVM used beside what the tasks used of their own.

    At most as much again as a task's own: the rest is not for the tasks (a host that warms up, or moves state).
    """
    cores = sum(load.get(CPU, 0.0) for load in own.values())
    if jvm_cores is None or cores <= 0:
        return dict(own)
    factor = min(max(jvm_cores / cores, 1.0), _MOST_OVERHEAD)
    return {task_id: load | {CPU: load[CPU] * factor} if CPU in load else load for task_id, load in own.items()}


class Kept(NamedTuple):
    """The state that a task on a shared host keeps in memory; `on_heap`: on the JVM's heap."""

    state_bytes: int
    on_heap: bool


def memory_of(tasks: Mapping[str, Kept], heap_bytes: int | None) -> dict[str, dict[str, float]]:
    """Memory by task: its state, and an equal share of all else that is on the host's heap.

    So the tasks of a host add up to its heap and what state is outside of it. Unknown as long as the heap is.
    """
    if heap_bytes is None or not tasks:
        return {}
    on_heap = sum(kept.state_bytes for kept in tasks.values() if kept.on_heap)
    share = max(0, heap_bytes - on_heap) / len(tasks)
    return {task_id: {MEMORY: share + kept.state_bytes} for task_id, kept in tasks.items()}


def _written(record: Mapping[str, Any], output: Output) -> int | None:
    """The rows for a Postgres table leave Spark as results of its tasks. Spark's own Kafka sink counts nothing."""
    if isinstance(output, PostgresOutput):
        return int(record["resultBytes"])
    if isinstance(output, KafkaOutput) and output.delivery == "at_least_once":
        return None
    return _counted(record["recordsWritten"], record["bytesWritten"])


def _counted(records: int, count: int) -> int | None:
    return None if records and not count else count


def _bytes(use: Use) -> int:
    return (use.read_bytes or 0) + (use.written_bytes or 0)
