"""How far a running task that takes no more rows has to read on, to come to the watermark of others."""

from __future__ import annotations

from time import monotonic

from penstock.spark.balance import Ends
from penstock.spark.redistribute.cuts import cuts_of, has_event_time
from penstock.spark.redistribute.level import furthest
from penstock.spark.redistribute.positions import Generation, topics_of, trace
from penstock.spark.task import RunningTask
from penstock.tasks.redistribution import Layout


class RunningLevel(Generation):
    """One task that runs and takes no rows, and where it ends to read. Raises Unavailable when Kafka does not answer.

    Rows of several producers interleave, so rows before the goal may follow a row beyond it. And an input without event
    time says nothing of its watermark. A task with such an input cannot be cut; it is levelled after the stop.
    """

    def __init__(self, task: RunningTask) -> None:
        spec = task.spec
        layout = Layout(generation=spec.generation, config=spec.config, ranges=(spec.key_groups,))
        super().__init__(task.runtime, layout, [task])
        self._task = task

    def can_be_cut(self) -> bool:
        """Whether the task can be brought to a watermark exactly."""
        sources = self._inputs.values()
        return all(has_event_time(source) and not self._ends.marks(source) for source in sources)

    def cuts(self, goal_ms: int) -> Ends:
        """By topic and key group; none for a task that does not say what it reads."""
        task, settings = self._task, self._runtime.settings
        found = trace(task.checkpoint, self._runtime.files)
        sources = self._position(task, found, topics_of([found])).sources
        session = self._runtime.session(task.spec.config, task.checkpoint, task.token)
        deadline = monotonic() + settings.settle_timeout_seconds
        cut = {}
        for topic in {source.topic for source in sources}:
            source = self._inputs[topic]
            begins = furthest([sources], topic)
            cut[topic] = cuts_of(session, settings, source, goal_ms, begins, self._ends.ends(source), deadline)
        return cut
