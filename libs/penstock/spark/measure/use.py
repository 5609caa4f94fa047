"""The resources that the queries of a host have used, and the load between two measurements. Pure.

A query's own CPU is that of the thread that plans its batches and of its Spark tasks. CPU that the JVM uses for all
queries (garbage collection, compilation, Spark's scheduler, Kafka's threads) is divided in proportion to own CPU. CPU
of Python processes is not counted. A load that is not known is absent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from penstock.config.model import FunctionOutput, KafkaOutput, Output, PostgresOutput
from penstock.tasks.dimensions import CPU, MEMORY, NETWORK

_MOST_OVERHEAD = 2.0


class Use(NamedTuple):
    """The resources that a run of a query has used since its start; the bytes, read and written, None if not known."""

    run: str
    cpu_seconds: float
    network_bytes: int | None


def use_of(record: Mapping[str, Any], outputs: Collection[Output]) -> Use:
    """Parses a record of `QueryWatch.use`. Bytes are None when records were counted but their bytes were not, where the
    output counts none, and with several outputs: Spark counts the kept rows again as read by each."""
    read, written = _counted(record["recordsRead"], record["bytesRead"]), _written(record, outputs)
    network_bytes = None if read is None or written is None else read + written
    return Use(record["run"], record["cpuNanos"] / 1e9, network_bytes)


def load_between(before: Use | None, after: Use, seconds: float) -> dict[str, float]:
    """CPU cores and network bytes per second over `seconds`. Empty for the first measurement of a run."""
    if before is None or before.run != after.run or seconds <= 0:
        return {}
    load = {CPU: max(0.0, after.cpu_seconds - before.cpu_seconds) / seconds}
    if before.network_bytes is not None and after.network_bytes is not None:
        load[NETWORK] = max(0, after.network_bytes - before.network_bytes) / seconds
    return load


def with_overhead(own: Mapping[str, dict[str, float]], jvm_cores: float | None) -> dict[str, dict[str, float]]:
    """Adds each task's share of the JVM's other CPU to the loads.

    The share is at most the task's own CPU. The JVM uses more only for other work (it warms up, or moves state).
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
    """Memory by task: its state and an equal share of the rest of the host's heap.

    The tasks of a host add up to its heap and the state outside of it. Empty while the size of the heap is not known.
    """
    if heap_bytes is None or not tasks:
        return {}
    on_heap = sum(kept.state_bytes for kept in tasks.values() if kept.on_heap)
    share = max(0, heap_bytes - on_heap) / len(tasks)
    return {task_id: {MEMORY: share + kept.state_bytes} for task_id, kept in tasks.items()}


def _written(record: Mapping[str, Any], outputs: Collection[Output]) -> int | None:
    """Rows for Postgres leave Spark as task results. Spark's own Kafka sink counts no bytes, and a function may send
    rows in any way."""
    if len(outputs) != 1:
        return None
    (output,) = outputs
    if _counts_nothing(output):
        return None
    if isinstance(output, PostgresOutput):
        return int(record["resultBytes"])
    return _counted(record["recordsWritten"], record["bytesWritten"])


def _counts_nothing(output: Output) -> bool:
    of_spark = isinstance(output, KafkaOutput) and output.delivery == "at_least_once"
    return of_spark or isinstance(output, FunctionOutput)


def _counted(records: int, count: int) -> int | None:
    return None if records and not count else count
