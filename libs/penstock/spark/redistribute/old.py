"""The old generation: its tasks are taken over, brought to the end of their batches and to a common watermark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic
from typing import TypeVar

from penstock.config.model import Input
from penstock.control.errors import BrokenCheckpoint, Unavailable
from penstock.control.logs import logger
from penstock.spark.balance import Ends
from penstock.spark.checkpoint import is_clean, last_commit, last_offset
from penstock.spark.fence import Mark
from penstock.spark.producers import marks_of
from penstock.spark.redistribute.cuts import cuts_of, has_event_time
from penstock.spark.redistribute.level import furthest, offsets_left
from penstock.spark.redistribute.offsets import topics_in
from penstock.spark.redistribute.positions import Generation, Position, task_specs
from penstock.spark.redistribute.reads import Read, input_of
from penstock.spark.redistribute.seal import is_sealed
from penstock.spark.sections import furthest_sections
from penstock.spark.task import RunningTask, Runtime
from penstock.tasks.redistribution import Layout

log = logger(__name__)
T = TypeVar("T")


class OldGeneration(Generation):
    """The stopped tasks of a job. From `take_over` on, no earlier owner publishes to their checkpoints.

    `mark`: the stop that the redistribution follows.
    """

    def __init__(self, runtime: Runtime, job: str, layout: Layout, mark: Mark | None = None) -> None:
        self.tasks = [RunningTask(runtime, spec, epoch=None, mark=mark) for spec in task_specs(job, layout)]
        super().__init__(runtime, layout, self.tasks)
        self._marks: dict[str, dict[int, int]] = {}

    def take_over(self) -> None:
        """Claims all checkpoints. Raises BrokenTask when an input topic was made again."""
        for task in self.tasks:
            task.claim()
        self.require_same_topics()

    def finish_pending(self) -> int:
        """Finishes the pending batches and returns their number. Raises what `RunningTask.finish_pending` raises."""
        pending = [task for task in self.tasks if self._is_pending(task)]
        self._at_once(RunningTask.finish_pending, pending)
        return len(pending)

    def has_read_all(self, index: int) -> bool:
        """Whether a task has read all that was there at the first such question."""
        return self._at_end(self.positions()[index])

    def level(self, completeness: str) -> dict[str, int]:
        """Brings the tasks to a common watermark, or to the end of their input, if `completeness` is to wait.

        Returns the number of tasks that read on, `levelled`, or that were left behind it, `behind`. Raises Unavailable
        when they do not get there in the time that the settings allow.
        """
        if self._has_streams:
            return self._level_streams(completeness)
        self._marks = self._ends_of_marks()
        positions = self.positions()
        behind = self.lagging(positions, lambda index: self._at_end(positions[index]))
        if not behind:
            return {}
        if completeness == "drop_late":
            log.warning("tasks are left behind the common watermark", tasks=len(behind))
            return {"behind": len(behind)}
        if self._is_sealed():
            # They were levelled before; what came in since is for the new tasks.
            return {}
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
        return {"levelled": len(levelled)}

    def _level_streams(self, completeness: str) -> dict[str, int]:
        """Brings the tasks to the section that the furthest has read to: then they have the same watermark."""
        positions = self.positions()
        if self._has_own_words or not self.lagging(positions, lambda _: False):
            return {}
        stop_at = furthest_sections([position.sources for position in positions])
        behind = [index for index, position in enumerate(positions) if offsets_left(position.sources, stop_at)]
        if completeness == "drop_late":
            return {"behind": len(behind)}
        if self._is_sealed():
            return {}
        deadline = monotonic() + self._runtime.settings.level_timeout_seconds
        return {"levelled": len(self._read_to(stop_at, behind, positions, deadline))}

    def _is_sealed(self) -> bool:
        return any(is_sealed(task.checkpoint, self._runtime.files) for task in self.tasks)

    def _ends_of_marks(self) -> dict[str, dict[int, int]]:
        """Asked before the ends of the inputs, so that these have the rows that the marks speak of."""
        timed = [source for source in self._inputs.values() if source.watermark_delay is not None]
        if len(self.tasks) == 1:
            return {}
        return {topic: ends for source in timed for topic, ends in self._ends.marks(source).items()}

    def _at_end(self, position: Position) -> bool:
        """A job that has not begun does not say what it reads: then nothing is read."""
        topics = topics_in(position.sources)
        return bool(topics) and not offsets_left(position.sources, self._input_ends(topics))

    def _input_ends(self, topics: Iterable[str]) -> dict[str, dict[int, int]]:
        return {topic: self._ends_of(input_of(topic, self._inputs), topic) for topic in topics}

    def _ends_of(self, source: Input, topic: str) -> dict[int, int]:
        marks = marks_of(source)
        if marks is None or marks not in self._marks:
            return self._ends.ends(topic, range(source.key_groups))
        return self._ends.spoken_of(topic, range(source.key_groups), marks, self._marks[marks][0])

    def _cuts(self, goal: int, behind: Sequence[Position], deadline: float) -> Ends:
        """How far the key groups of tasks that lag are to be read, by topic; one without event time to its end."""
        begins = [position.sources for position in behind]
        topics = {topic for sources in begins for topic in topics_in(sources)}
        return {topic: self._cuts_of(topic, goal, furthest(begins, topic), deadline) for topic in topics}

    def _cuts_of(self, topic: str, goal: int, begins: Mapping[int, int], deadline: float) -> dict[int, int]:
        source = input_of(topic, self._inputs)
        ends = self._ends_of(source, topic)
        if not has_event_time(source):
            return ends
        if marks_of(source) in self._marks:
            # Rows of several producers interleave, so rows before the goal may follow a row beyond it.
            return ends
        # With the settings of the job, as its query reads the input with.
        session = self._runtime.session(self.tasks[0].spec.config, self.tasks[0].checkpoint, self.tasks[0].token)
        settings = self._runtime.settings
        return cuts_of(session, settings, source, topic, goal, begins, ends, lambda: monotonic() > deadline)

    def _read_to(
        self, stop_at: Ends, indices: Iterable[int], positions: Sequence[Position], deadline: float
    ) -> frozenset[int]:
        """Runs those of the tasks that have something left to read; their indices. `positions`: of all tasks, now."""
        behind = [index for index in indices if offsets_left(positions[index].sources, stop_at)]
        self._at_once(partial(self._read_task_to, positions[0].reads, stop_at, deadline), behind)
        return frozenset(behind)

    def _read_task_to(self, reads: Sequence[Read], stop_at: Ends, deadline: float, index: int) -> None:
        task = self.tasks[index]
        members = task.spec.key_groups.members()
        own = {topic: {group: ends[group] for group in members} for topic, ends in stop_at.items()}
        log.info("task reads on to the common watermark", task=task.spec.task_id, stop_at=own)
        try:
            task.run_until(
                lambda: not self._left(task, reads, own), max(0.0, deadline - monotonic()), {**own, **self._marks}
            )
        except TimeoutError as error:
            raise Unavailable(late(task.spec.task_id, self._left(task, reads, own))) from error

    def _left(self, task: RunningTask, reads: Sequence[Read], stop_at: Ends) -> int:
        """Asked again and again while the tasks run, so only of the task's own checkpoint."""
        there = self._position(task, self.trace(task), reads)
        return offsets_left(there.sources, stop_at)

    def _is_pending(self, task: RunningTask) -> bool:
        """A sealed task is clean: its pending batch was finished before it was sealed."""
        files = self._runtime.files
        if not is_sealed(task.checkpoint, files):
            return not is_clean(task.checkpoint, files)
        newest = last_offset(task.checkpoint, files)
        if last_commit(task.checkpoint, files) != (newest - 1 if newest else None):
            raise BrokenCheckpoint(f"{task.checkpoint} was sealed with a batch pending")
        return False

    def _at_once(self, work: Callable[[T], None], items: Sequence[T]) -> None:
        with ThreadPoolExecutor(self._runtime.settings.max_concurrent_starts) as pool:
            list(pool.map(work, items))


def late(task_id: str, offsets: int) -> str:
    """Why a task is not at the common watermark in time. With no offset left it waited for the commit of its batch."""
    if offsets == 0:
        return (
            f"{task_id} has read all before the common watermark, but the batch in hand was not committed within the "
            "time limit"
        )
    return (
        f"{task_id} still has {offsets:,} offsets to read before the common watermark; the time limit is over. Rows "
        "behind a transaction that has not ended cannot be read until it ends"
    )


def _watermark_of(positions: Sequence[Position]) -> int:
    return max(position.watermark_ms for position in positions)
