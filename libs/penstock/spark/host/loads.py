"""Measures the loads of a host's tasks: the JVM's counters, memory of processes, sizes of checkpoints."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from penstock.control.clock import Clock
from penstock.spark.files import is_local, local_path
from penstock.spark.measure.use import Kept, Use, load_between, memory_of, use_of, with_overhead
from penstock.spark.task import RunningTask
from penstock.tasks.dimensions import DISK, MEMORY

Loads = dict[str, dict[str, float]]
_DISK_SECONDS = 0.05


class LoadMeter:
    """Measures loads between two calls of `measure`. For use by one thread."""

    def __init__(self, watch: Any, clock: Clock, disk_interval_seconds: float) -> None:
        self._watch = watch
        self._clock = clock
        self._disk_interval_seconds = disk_interval_seconds
        self._seen: dict[str, tuple[float, Use]] = {}
        self._sizes: dict[str, tuple[float, int | None]] = {}
        self._jvm = (clock.monotonic(), 0)

    def measure(self, running: Mapping[str, RunningTask]) -> Loads:
        """The load of each running task by dimension. A dimension that is not known is absent."""
        looked = json.loads(self._watch.use())
        now = self._clock.monotonic()
        own = self._rates(running, looked["queries"], now)
        rates = with_overhead(own, self._jvm_cores(looked["cpuNanos"], now))
        memory = _memory(running, looked["heapBytes"])
        disk = self._disk(running, now)
        loads = {
            task_id: {**rates.get(task_id, {}), **memory.get(task_id, {}), **disk.get(task_id, {})}
            for task_id in running
        }
        return {task_id: load for task_id, load in loads.items() if load}

    def _rates(self, running: Mapping[str, RunningTask], records: list[dict[str, object]], now: float) -> Loads:
        before, self._seen = self._seen, {}
        rates = {}
        for record in records:
            task = running.get(str(record["task"]))
            if task is not None and task.run_id == record["run"]:
                use = use_of(record, task.spec.config.outputs.values())
                seen_at, seen = before.get(task.spec.task_id, (now, None))
                rates[task.spec.task_id] = load_between(seen, use, now - seen_at)
                self._seen[task.spec.task_id] = (now, use)
        return rates

    def _jvm_cores(self, cpu_nanos: int, now: float) -> float | None:
        before, self._jvm = self._jvm, (now, cpu_nanos)
        seconds = now - before[0]
        return (cpu_nanos - before[1]) / 1e9 / seconds if seconds > 0 else None

    def _disk(self, running: Mapping[str, RunningTask], now: float) -> Loads:
        """Measures each checkpoint once in an interval, those measured longest ago first, for a small share of the
        time. A new checkpoint is measured after its first interval."""
        paths = {task.checkpoint for task in running.values() if is_local(task.checkpoint)}
        self._sizes = {path: self._sizes.get(path, (now, None)) for path in paths}
        for path in sorted(paths, key=lambda path: self._sizes[path][0]):
            is_due = now - self._sizes[path][0] >= self._disk_interval_seconds
            if not is_due or self._clock.monotonic() - now > _DISK_SECONDS:
                break
            self._sizes[path] = (now, folder_bytes(local_path(path)))
        sizes = {task_id: self._sizes.get(task.checkpoint, (now, None))[1] for task_id, task in running.items()}
        return {task_id: {DISK: float(size)} for task_id, size in sizes.items() if size is not None}


def folder_bytes(folder: Path) -> int | None:
    """The sizes of all files below a folder; files that go meanwhile do not count. None when it cannot be read."""
    total = 0
    try:
        for parent, _, names in os.walk(folder, onerror=_raise_unless_gone):
            for name in names:
                with suppress(FileNotFoundError):
                    total += os.lstat(f"{parent}/{name}").st_size
    except OSError:
        return None
    return total


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _memory(running: Mapping[str, RunningTask], heap_bytes: int | None) -> Loads:
    alone = [task_id for task_id, task in running.items() if task.spec.config.isolation == "process"]
    if alone:
        return {alone[0]: {MEMORY: float(_resident_bytes())}} if len(running) == 1 else {}
    return memory_of({task_id: _kept(task) for task_id, task in running.items()}, heap_bytes)


def _kept(task: RunningTask) -> Kept:
    """A query that tells of no state has none: state is loaded by the first batch."""
    state = None if task.progress is None else task.progress.state_memory_bytes
    return Kept(state or 0, on_heap=task.spec.config.state_backend == "heap")


def _resident_bytes() -> int:
    """Of this process and all below it: the JVM and its Python workers."""
    own = psutil.Process()
    total = 0
    for process in (own, *own.children(recursive=True)):
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total
