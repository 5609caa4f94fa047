"""A task that lags reads on to the watermark of the others while it runs, before the stop of a rescale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pytest

from penstock.control.errors import Unavailable
from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.local.topics import create_topics
from penstock.model.reports import TaskProgress, TaskState
from penstock.spark.host.tasks import TaskTable
from penstock.spark.producers import marks_topic
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.task import Runtime
from penstock.tasks.spec import TaskSpec
from services.state_syncer.decide.observe import ClusterView, JobsTasks
from services.state_syncer.decide.quiet import Order, Quiet, observe_quiet
from services.state_syncer.decide.whereabouts import ReportedTask
from tests.integration.redistribute.test_level import WINDOW, finish_exactly, make_job
from tests.support.spark.redistribution import Events, Job

WAIT_SECONDS = 60.0
STEP_MS = 5_000  # Rows of a task are no further apart.
SMALL: dict[str, float] = {"max_records_per_trigger": 300}
LARGE = {"max_records_per_trigger": 10_000}
CELL = ClusterView(reporting=frozenset(["a"]), lost=frozenset(), applied_commit=1)


class Running:
    """The two tasks of a job on the host of this process. `level_ms`: of the order that they are under."""

    def __init__(self, runtime: Runtime, job: Job) -> None:
        self.job = job
        self.level_ms: int | None = 0
        self._table = TaskTable(runtime)

    def specs(self, *, quiescing: bool) -> list[TaskSpec]:
        order = {"quiescing": quiescing, "level_ms": self.level_ms}
        return [spec.model_copy(update=order) for spec in task_specs(self.job.name, self.job.layout)]

    def start(self, specs: Sequence[TaskSpec]) -> None:
        for spec in specs:
            self._table.start(spec, epoch=1)

    def live(self, specs: Sequence[TaskSpec]) -> None:
        for spec in specs:
            self._table.live(spec)

    def stop(self, *indices: int) -> None:
        for index in indices or (0, 1):
            self._table.stop(f"{self.job.name}/{index}", finish_pending=True)

    def told(self) -> list[TaskProgress]:
        progress, ended = self._table.poll()
        assert not ended
        return [progress.get(f"{self.job.name}/{index}", TaskProgress()) for index in (0, 1)]

    def quiet(self) -> Quiet:
        """What the State Syncer makes of it."""
        tasks = [
            ReportedTask("a", index, TaskState.RUNNING, each.quiesced, each.level_ms, each.watermark_ms, each.caught_up)
            for index, each in enumerate(self.told())
        ]
        return observe_quiet(CELL, tasks, Order(1, self.level_ms), JobsTasks("j", 2, None))

    def wait_until_quiet(self) -> Quiet:
        wait_until(lambda: self.quiet().is_certain, WAIT_SECONDS, "both tasks to be quiet")
        return self.quiet()


@pytest.fixture
def running(runtime: Runtime, events: Events, request: pytest.FixtureRequest) -> Iterator[Running]:
    """Of two tasks that both read, then only the second, far beyond the delay; and both have more before them.

    Both run and take no more rows. With these limits of batches.
    """
    events.add_range(0, 300)
    job = make_job(runtime, {"events": events}, WINDOW, **request.param)
    job.run()
    events.add_range(300, 1500)
    job.run([1])
    events.add_range(1500, 4000)
    running = Running(runtime, job)
    running.start(running.specs(quiescing=True))
    try:
        yield running
    finally:
        running.stop()


@pytest.mark.long
@pytest.mark.parametrize("running", [SMALL | {"trigger_interval_seconds": 3600}], indirect=True)
def test_a_task_is_levelled_before_the_stop_and_nothing_is_left_to_level_after_it(
    running: Running, events: Events
) -> None:
    """1. Quiet, but uneven. 2. The task that lags is to read on. It dies, and starts with the order. 3. It does not
    wait for its next trigger, and stops right before the first row beyond the watermark of the other, with more rows
    before it. 4. The rescale has nothing to level, and is exact."""
    job = running.job
    uneven = running.wait_until_quiet()
    goal = job.watermark_ms(1)
    assert (uneven.goal_ms, job.watermark_ms(0) < goal) == (goal, True)
    running.level_ms = uneven.goal_ms
    lagging, other = running.specs(quiescing=True)
    running.stop(0)
    running.start([lagging])
    running.live([other])
    read = int(wait_until(lambda: running.told()[0].level_records, WAIT_SECONDS, "how many records it reads on") or 0)
    assert 0 < read < 2500, "some of the rows that are there"
    assert running.wait_until_quiet().busy == 0
    assert running.told()[0].level_records is None
    reached, there = (each.watermark_ms for each in running.told())
    assert reached is not None
    assert goal - STEP_MS <= reached <= goal == there
    assert not running.told()[0].caught_up, "it reads no further than it has to"
    running.stop()
    report = job.rescale(task_count=3)
    assert (report.levelled, report.behind, report.watermark_ms) == (0, 0, goal)
    finish_exactly(job, events)


@pytest.mark.long
@pytest.mark.parametrize("running", [LARGE], indirect=True)
def test_a_task_goes_on_as_ever_when_the_order_is_taken_back(running: Running) -> None:
    """1. A large batch ends before the watermark of the other, too. 2. Released, the task reads on."""
    job = running.job
    running.level_ms = goal = running.wait_until_quiet().goal_ms
    assert goal is not None
    running.live(running.specs(quiescing=True))
    running.wait_until_quiet()
    lagging, _ = running.told()
    assert lagging.watermark_ms is not None
    assert (lagging.watermark_ms <= goal, lagging.caught_up) == (True, False)
    running.level_ms = None
    running.live(running.specs(quiescing=False))
    wait_until(lambda: job.watermark_ms(0) > goal, WAIT_SECONDS, "the watermark to rise")
    assert lagging.late_rows_dropped == running.told()[0].late_rows_dropped == 0


@pytest.mark.long
@pytest.mark.parametrize("running", [SMALL], indirect=True)
def test_a_task_whose_cuts_are_not_found_reads_nothing_and_is_waited_for(
    running: Running, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. It is to read on, and Kafka does not say how far: it is busy and reads nothing. 2. Kafka answers again: it is
    level. 3. Nothing is left to level after the stop, and results are exact."""
    job = running.job
    monkeypatch.setattr("penstock.spark.host.levels._RETRY_SECONDS", 0.1)
    running.level_ms = goal = running.wait_until_quiet().goal_ms
    before, asked = job.watermark_ms(0), []
    with monkeypatch.context() as away:
        away.setattr("penstock.spark.redistribute.cuts.first_beyond", partial(no_answer, asked))
        running.live(running.specs(quiescing=True))
        wait_until(lambda: (running.quiet(), len(asked) > 2)[1], WAIT_SECONDS, "the search to be repeated")
        assert (running.quiet().busy, job.watermark_ms(0)) == (1, before)
    running.wait_until_quiet()
    running.stop()
    report = job.rescale(task_count=3)
    assert (report.levelled, report.watermark_ms) == (0, goal)
    finish_exactly(job, events)


def no_answer(asked: list[object], *question: object) -> dict[int, int]:
    asked.append(question)
    raise Unavailable("kafka does not answer")


@pytest.mark.long
@pytest.mark.parametrize("running", [SMALL], indirect=True)
def test_tasks_whose_input_has_producers_with_marks_say_no_watermark(
    running: Running, events: Events, kafka: EmbeddedKafka
) -> None:
    """Rows of several producers interleave, so such tasks cannot be cut: they are quiet, and nobody reads on."""
    marks = marks_topic(events.topic)
    assert marks is not None
    create_topics(kafka.bootstrap, {marks: 1})
    quiet = running.wait_until_quiet()
    assert (quiet.goal_ms, quiet.behind) == (None, ())
    assert [each.watermark_ms for each in running.told()] == [None, None]
