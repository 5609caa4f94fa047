"""The old generation: its tasks are taken over, brought to the end of their batches and to a common watermark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TypeVar

from penstock.control.errors import BrokenCheckpoint, Unavailable
from penstock.control.logs import logger
from penstock.spark.checkpoint import CheckpointFiles, is_clean, last_commit, last_offset
from penstock.spark.redistribute.bus import InputEnds
from penstock.spark.redistribute.level import Standing, has_read_all, lagging
from penstock.spark.redistribute.positions import Position, position, positions_of, trace
from penstock.spark.redistribute.seal import is_sealed
from penstock.spark.task import RunningTask, Runtime, checkpoint_files
from penstock.tasks.redistribution import Layout
from penstock.tasks.spec import TaskSpec

log = logger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class Levelling:
    """`levelled`: tasks that read on; `behind`: tasks that were left behind the common watermark."""

    levelled: frozenset[int] = frozenset()
    behind: frozenset[int] = frozenset()


class OldGeneration:
    """The stopped tasks of a job. From `take_over` on, no earlier owner publishes to their checkpoints."""

    def __init__(self, runtime: Runtime, job: str, layout: Layout) -> None:
        self.tasks = [RunningTask(runtime, spec, epoch=None) for spec in task_specs(job, layout)]
        self._runtime = runtime
        self._inputs = {source.topic: source for source in layout.config.inputs.values()}
        self._ends = InputEnds(runtime.settings.kafka_bootstrap)

    def take_over(self) -> None:
        """Claims all checkpoints."""
        for task in self.tasks:
            task.claim()

    def settle(self) -> int:
        """Finishes the pending batches; how many there were. Raises what `RunningTask.finish_pending` raises."""
        pending = [task for task in self.tasks if self._is_pending(task)]
        self._at_once(RunningTask.finish_pending, pending)
        return len(pending)

    def positions(self) -> list[Position]:
        """Where the tasks are; none of them may have a batch pending."""
        checkpoints = [(task.checkpoint, task.spec.key_groups) for task in self.tasks]
        return positions_of(checkpoints, self._files(self.tasks[0]), self._inputs, self._ends)

    def has_read_all(self, index: int) -> bool:
        """Whether a task has read all that was there at the first such question."""
        return self._at_end(self.positions()[index])

    def level(self, completeness: str) -> Levelling:
        """Brings the tasks to a common watermark, or to the end of their input, if `completeness` is to wait.

        A query without state drops no rows, so its tasks stay where they are. Raises Unavailable when they do not get
        there in the time that the settings allow.
        """
        levelled: set[int] = set()
        deadline = monotonic() + self._runtime.settings.level_timeout_seconds
        while behind := self._lagging():
            if completeness == "drop_late":
                log.warning("tasks are left behind the common watermark", tasks=len(behind))
                return Levelling(behind=frozenset(behind))
            self._read_on(behind, deadline)
            levelled |= set(behind)
        return Levelling(levelled=frozenset(levelled))

    def _lagging(self) -> tuple[int, ...]:
        if not any(self._files(task).names(f"{task.checkpoint}/state") for task in self.tasks):
            return ()
        positions = self.positions()
        if not any(position.watermark_ms for position in positions):
            return ()
        return lagging([Standing(position.watermark_ms, self._at_end(position)) for position in positions])

    def _at_end(self, position: Position) -> bool:
        """A job that has not begun does not say what it reads: then nothing is read."""
        topics = {source.topic for source in position.sources}
        return bool(topics) and has_read_all(
            position.sources, {topic: self._ends.ends(self._inputs[topic]) for topic in topics}
        )

    def _read_on(self, behind: Sequence[int], deadline: float) -> None:
        """Runs the tasks until each has the greatest watermark of now, or has read its input to the end."""
        positions = self.positions()
        goal = max(position.watermark_ms for position in positions)
        topics = tuple(source.topic for source in positions[0].sources)
        self._at_once(partial(self._read_on_to, goal, topics, deadline), behind)

    def _read_on_to(self, goal: int, topics: Sequence[str], deadline: float, index: int) -> None:
        task = self.tasks[index]
        try:
            task.run_until(lambda: self._has_reached(task, goal, topics), max(0.0, deadline - monotonic()))
        except TimeoutError as error:
            detail = f"{task.spec.task_id} does not reach the watermark of the other tasks in time"
            raise Unavailable(detail) from error

    def _has_reached(self, task: RunningTask, goal: int, topics: Sequence[str]) -> bool:
        """Looked at again and again while the tasks run, so only at the task's own checkpoint."""
        found = trace(task.checkpoint, self._files(task))
        there = position(found, task.spec.key_groups, topics, self._inputs, self._ends)
        return there.watermark_ms >= goal or self._at_end(there)

    def _is_pending(self, task: RunningTask) -> bool:
        """A sealed task is clean: it was settled before it was sealed."""
        files = self._files(task)
        newest = last_offset(task.checkpoint, files)
        if newest is None or not is_sealed(task.checkpoint, newest, files):
            return not is_clean(task.checkpoint, files)
        if last_commit(task.checkpoint, files) != (newest - 1 if newest else None):
            raise BrokenCheckpoint(f"{task.checkpoint} was sealed with a batch pending")
        return False

    def _files(self, task: RunningTask) -> CheckpointFiles:
        return checkpoint_files(self._runtime, task.checkpoint)

    def _at_once(self, work: Callable[[T], None], items: Sequence[T]) -> None:
        with ThreadPoolExecutor(self._runtime.settings.max_concurrent_starts) as pool:
            list(pool.map(work, items))


def task_specs(job: str, layout: Layout) -> list[TaskSpec]:
    """The specs of a generation's tasks, for work on their checkpoints: of no revision."""
    return [
        TaskSpec(
            job=job,
            index=index,
            revision=0,
            generation=layout.generation,
            restarts=0,
            key_groups=part,
            config=layout.config,
        )
        for index, part in enumerate(layout.ranges)
    ]
