"""A job with `completeness: drop_late` beside one that waits, behind a producer that has died: tasks of hosts."""

from __future__ import annotations

import random

import pytest

from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.model.alerts import AlertKind
from penstock.model.reports import TaskProgress
from penstock.spark.host.tasks import TaskTable
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.task import Runtime
from tests.support.spark.chains import WINDOWS, Row, batch_answer, chain_of, closing, counts, row_of
from tests.support.spark.hosts import make_topic
from tests.support.spark.redistribution import KEY_GROUPS, Events, Job, Keys, output_topic

_ROWS = 240
_SECONDS = 60.0


@pytest.mark.long
def test_a_job_that_drops_late_rows_goes_on_without_a_dead_producer_and_one_that_waits_does_not(
    runtime: Runtime, kafka: EmbeddedKafka
) -> None:
    """1. Both tasks of a shuffle have written; then one is dead, and the other goes on far beyond the delay. 2. The job
    that waits has nothing of the time after. The other one names the dead task, and its windows come out. 3. The task
    is back: its rows are late for the one job and are counted as such; the other one gives the batch answer."""
    events = Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), Keys(runtime.spark, "spark"))
    shuffle, waiting = chain_of(runtime, events, 2, WINDOWS)
    dropping = _dropping(waiting)
    dice = random.Random(3)
    rows: list[Row] = []
    for step, tasks in enumerate(([0, 1], [1])):
        fresh = [row_of(events, dice, n) for n in range(step * _ROWS, (step + 1) * _ROWS)]
        events.add(fresh)
        rows += fresh
        shuffle.run(tasks)
    waiting.run()
    (dead,) = {f"{shuffle.name}/0"}
    table, spec = TaskTable(runtime), task_specs(dropping.name, dropping.layout)[0]
    newest = 2 * _ROWS * 250_000

    def progress() -> TaskProgress:
        return table.poll()[0].get(spec.task_id, TaskProgress())

    table.start(spec, epoch=1)
    try:
        told = wait_until(lambda: progress().input_problems.get(AlertKind.NOT_AWAITED), _SECONDS, "the dead task")
        assert dead in told
        wait_until(lambda: _ends(dropping) > newest * 3 // 4, _SECONDS, "windows without its rows")
        assert max((end for end, _ in counts(waiting)), default=0) < newest // 2 + 40_000_000
        before = counts(dropping)
        shuffle.run([0])
        wait_until(lambda: progress().late_rows_dropped, _SECONDS, "late rows")
    finally:
        table.stop(spec.task_id, finish_pending=True)
    events.add(closing(events))
    for job in (shuffle, waiting, dropping):
        job.run()
    answer = batch_answer(WINDOWS, rows)
    assert counts(waiting) == answer
    lost = answer - counts(dropping)
    assert sum(lost.values()) > 0
    assert not counts(dropping) - answer
    assert before <= counts(dropping), "no window changes after it has come out"


def _dropping(waiting: Job) -> Job:
    """The same job with an output of its own, in one task, which waits for a silent producer for two seconds."""
    output = output_topic(waiting.runtime.settings.kafka_bootstrap)
    changes = {"completeness": "drop_late", "completeness_wait_seconds": 2.0, "task_count": 1}
    job = Job(waiting.runtime, waiting.config.model_copy(update=changes))
    job.config = job.config.model_copy(
        update={"output": waiting.config.output.model_copy(update={"topic": output["topic"]})}
    )
    return job


def _ends(job: Job) -> int:
    """The newest end of a window that the job wrote, in microseconds."""
    try:
        return max(end for end, _ in counts(job))
    except (AssertionError, ValueError):
        return 0
