"""How far a running task that takes no more rows has to read on, to come to the watermark of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from penstock.spark.balance import Ends
from penstock.spark.redistribute.cuts import cuts_of, has_event_time
from penstock.spark.redistribute.level import furthest
from penstock.spark.redistribute.offsets import topics_in
from penstock.spark.redistribute.positions import Generation
from penstock.spark.redistribute.reads import input_of
from penstock.spark.task import RunningTask
from penstock.tasks.redistribution import Layout


class Cuts(NamedTuple):
    """Where a task ends to read, by topic and key group, and how many records that is from where it is. `records` None:
    its stream does not say it."""

    ends: Ends
    records: int | None = 0


class RunningLevel(Generation):
    """One task that runs and takes no rows, and where it ends to read. Raises Unavailable when Kafka does not answer.

    A task with one of two kinds of input cannot be cut, and is levelled after the stop. An input whose producers write
    marks: their rows interleave, so rows before the goal may follow a row beyond it. An input without event time: its
    rows do not say how far it is. A stream with key columns has sections that lead to the goal, if it is the only one.
    """

    def __init__(self, task: RunningTask) -> None:
        spec = task.spec
        layout = Layout(generation=spec.generation, config=spec.config, ranges=(spec.key_groups,))
        super().__init__(task.runtime, layout, [task])
        self._task = task

    def can_be_cut(self) -> bool:
        """Whether the task can be brought to a watermark exactly."""
        sources = self._inputs.values()
        if self._has_streams:
            (stream, *others) = self._task.spec.config.streams.values()
            return bool(stream.key_columns) and not others and has_event_time(stream)
        return all(has_event_time(source) and not self._ends.marks(source) for source in sources)

    def cuts(self, goal_ms: int, is_over: Callable[[], bool]) -> Cuts:
        """Where the task ends to read; nowhere for a task that has come so far, or does not say what it reads. Of a
        stream its name is enough: the source knows which sections are needed. Raises Unavailable when `is_over` says
        that nobody needs them any more."""
        task, settings = self._task, self._runtime.settings
        found = self.trace(task)
        if self._has_streams:
            return Cuts({name: {} for name in topics_in(filter(None, found.sources))}, None)
        position = self._position(task, found, self.reads([found]))
        if position.watermark_ms >= goal_ms:
            return Cuts({})
        sources = position.sources
        session = self._runtime.session(task.spec.config, task.checkpoint, task.token)
        cut, records = {}, 0
        for topic in topics_in(sources):
            source = input_of(topic, self._inputs)
            begins, ends = furthest([sources], topic), self._ends.ends(topic, task.spec.key_groups.members())
            cut[topic] = cuts_of(session, settings, source, topic, goal_ms, begins, ends, is_over)
            records += sum(max(0, end - begins.get(group, end)) for group, end in cut[topic].items())
        return Cuts(cut, records)
