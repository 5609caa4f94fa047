"""The old generation: its tasks are taken over, brought to the end of their batches and to a common watermark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TypeVar

from pyspark.sql import SparkSession

from penstock.config.model import Input
from penstock.control.errors import BrokenCheckpoint, Unavailable
from penstock.control.logs import logger
from penstock.spark.balance import Ends, delay_millis
from penstock.spark.checkpoint import CheckpointFiles, is_clean, last_commit, last_offset
from penstock.spark.fence import FENCE, Mark
from penstock.spark.redistribute.bus import InputEnds
from penstock.spark.redistribute.level import (
    Span,
    Standing,
    cuts,
    furthest,
    has_read_all,
    lagging,
    offsets_left,
)
from penstock.spark.redistribute.positions import Position, position, positions_of, trace
from penstock.spark.redistribute.scan import first_beyond
from penstock.spark.redistribute.seal import is_sealed
from penstock.spark.session import task_session
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
    """The stopped tasks of a job. From `take_over` on, no earlier owner publishes to their checkpoints.

    `mark`: the stop that the redistribution follows.
    """

    def __init__(self, runtime: Runtime, job: str, layout: Layout, mark: Mark | None = None) -> None:
        self.tasks = [RunningTask(runtime, spec, epoch=None, mark=mark) for spec in task_specs(job, layout)]
        self._runtime = runtime
        self._inputs = {source.topic: source for source in layout.config.inputs.values()}
        self._ends = InputEnds(runtime.settings.kafka_bootstrap)

    def take_over(self) -> None:
        """Claims all checkpoints."""
        for task in self.tasks:
            task.claim()

    def finish_pending(self) -> int:
        """Finishes the pending batches and returns their number. Raises what `RunningTask.finish_pending` raises."""
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
        positions = self.positions()
        behind = self._lagging(positions)
        if not behind:
            return Levelling()
        if completeness == "drop_late":
            log.warning("tasks are left behind the common watermark", tasks=len(behind))
            return Levelling(behind=frozenset(behind))
        if any(map(self._is_sealed, self.tasks)):
            # They were levelled before; what came in since is for the new tasks.
            return Levelling()
        deadline = monotonic() + self._runtime.settings.level_timeout_seconds
        goal = _watermark_of(positions)
        stop_at = self._cuts(goal, [positions[index] for index in behind], deadline)
        levelled = self._read_to(stop_at, behind, positions, deadline)
        positions = self.positions()
        if _watermark_of(positions) > goal:
            log.warning(
                "the watermark is not that of the inputs: all tasks read to the end", job=self.tasks[0].spec.job
            )
            levelled |= self._read_to(self._input_ends(stop_at), range(len(self.tasks)), positions, deadline)
        return Levelling(levelled=levelled)

    def _lagging(self, positions: Sequence[Position]) -> tuple[int, ...]:
        if not any(self._files(task).names(f"{task.checkpoint}/state") for task in self.tasks):
            return ()
        if not _watermark_of(positions):
            return ()
        return lagging([Standing(position.watermark_ms, self._at_end(position)) for position in positions])

    def _at_end(self, position: Position) -> bool:
        """A job that has not begun does not say what it reads: then nothing is read."""
        topics = {source.topic for source in position.sources}
        return bool(topics) and has_read_all(position.sources, self._input_ends(topics))

    def _input_ends(self, topics: Iterable[str]) -> dict[str, dict[int, int]]:
        return {topic: self._ends.ends(self._inputs[topic]) for topic in topics}

    def _cuts(self, goal: int, behind: Sequence[Position], deadline: float) -> Ends:
        """How far the key groups of tasks that lag are to be read, by topic; one without event time to its end."""
        begins = [position.sources for position in behind]
        topics = {source.topic for sources in begins for source in sources}
        return {topic: self._cuts_of(self._inputs[topic], goal, furthest(begins, topic), deadline) for topic in topics}

    def _cuts_of(self, source: Input, goal: int, begins: Mapping[int, int], deadline: float) -> dict[int, int]:
        ends = self._ends.ends(source)
        if source.event_time_column is None or source.watermark_delay is None:
            return ends
        session, last_ms = self._session(), goal + delay_millis(source.watermark_delay)

        def search(spans: Mapping[int, Span]) -> dict[int, int]:
            if monotonic() > deadline and any(lo > begins[group] for group, (lo, _) in spans.items()):
                raise Unavailable(f"{source.topic} is not searched for the common watermark in time")
            return first_beyond(session, source, self._runtime.settings, last_ms, spans)

        return cuts(begins, ends, search)

    def _session(self) -> SparkSession:
        """With the settings of the job, as its query reads the input with."""
        task, settings = self.tasks[0], self._runtime.settings
        fence = f"{task.checkpoint}/{FENCE}"
        spark = self._runtime.host.spark
        return task_session(spark, task.spec.config, fence, task.token, settings.unlocked_checkpoints)

    def _read_to(
        self, stop_at: Ends, indices: Iterable[int], positions: Sequence[Position], deadline: float
    ) -> frozenset[int]:
        """Runs those of the tasks that have something left to read; their indices. `positions`: of all tasks, now."""
        behind = [index for index in indices if offsets_left(positions[index].sources, stop_at)]
        topics = tuple(source.topic for source in positions[0].sources)
        self._at_once(partial(self._read_task_to, topics, stop_at, deadline), behind)
        return frozenset(behind)

    def _read_task_to(self, topics: Sequence[str], stop_at: Ends, deadline: float, index: int) -> None:
        task = self.tasks[index]
        members = task.spec.key_groups.members()
        own = {topic: {group: ends[group] for group in members} for topic, ends in stop_at.items()}
        log.info("task reads on to the common watermark", task=task.spec.task_id, stop_at=own)
        try:
            task.run_until(lambda: not self._left(task, topics, own), max(0.0, deadline - monotonic()), own)
        except TimeoutError as error:
            detail = f"{task.spec.task_id} has {self._left(task, topics, own)} offsets left to the common watermark"
            raise Unavailable(f"{detail}: not read in time") from error

    def _left(self, task: RunningTask, topics: Sequence[str], stop_at: Ends) -> int:
        """Asked again and again while the tasks run, so only of the task's own checkpoint."""
        found = trace(task.checkpoint, self._files(task))
        there = position(found, task.spec.key_groups, topics, self._inputs, self._ends)
        return offsets_left(there.sources, stop_at)

    def _is_pending(self, task: RunningTask) -> bool:
        """A sealed task is clean: its pending batch was finished before it was sealed."""
        files = self._files(task)
        if not self._is_sealed(task):
            return not is_clean(task.checkpoint, files)
        newest = last_offset(task.checkpoint, files)
        if last_commit(task.checkpoint, files) != (newest - 1 if newest else None):
            raise BrokenCheckpoint(f"{task.checkpoint} was sealed with a batch pending")
        return False

    def _is_sealed(self, task: RunningTask) -> bool:
        files = self._files(task)
        newest = last_offset(task.checkpoint, files)
        return newest is not None and is_sealed(task.checkpoint, newest, files)

    def _files(self, task: RunningTask) -> CheckpointFiles:
        return checkpoint_files(self._runtime, task.checkpoint)

    def _at_once(self, work: Callable[[T], None], items: Sequence[T]) -> None:
        with ThreadPoolExecutor(self._runtime.settings.max_concurrent_starts) as pool:
            list(pool.map(work, items))


def _watermark_of(positions: Sequence[Position]) -> int:
    return max(position.watermark_ms for position in positions)


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
