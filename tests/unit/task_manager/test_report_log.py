"""What a container tells the Task Service: tables of what is news, and stories with lost, repeated and late reports."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from penstock.control.errors import Unavailable
from penstock.model.reports import TaskProgress, TaskReport, TaskReportBatch, TaskState
from penstock.wire.cluster import Capacity, HeartbeatRequest
from services.task_manager.report_log import Outgoing, ReportLog, is_news
from tests.support.memory import ownership
from tests.support.memory.specs import MemoryTaskService
from tests.support.memory.store import MemoryStore

RUNS = {"batch_id": 3, "input_rows": 5, "backlog_records": 10, "processed_rows_per_second": 2.0}


def task(index: int = 0, progress: dict[str, Any] | None = RUNS, **facts: Any) -> TaskReport:
    identity = {"job": "a", "index": index, "state": TaskState.RUNNING, "generation": 1, "restarts": 0, "epoch": 1}
    told = None if progress is None else TaskProgress(**progress)
    return TaskReport(**({**identity, "revision": 1, "progress": told} | facts))


def batch(*tasks: TaskReport, incarnation: str = "one", commit: int = 1) -> TaskReportBatch:
    return TaskReportBatch(container="c1", incarnation=incarnation, commit_number=commit, version=1, tasks=tasks)


def new_log(**settings: float) -> ReportLog:
    usual = {"quiet_seconds": 0.0, "figures_seconds": 15.0, "full_seconds": 600.0}
    return ReportLog(**(usual | settings), random=Random(1))


def due(log: ReportLog, present: TaskReportBatch, now: float) -> Outgoing:
    report = log.next(present, now)
    assert report is not None
    return report


QUIET = {**RUNS, "quiesced": True, "level_ms": 0, "watermark_ms": 4}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(task(), task(progress={**RUNS, "backlog_records": 900}), False, id="a figure"),
        pytest.param(task(), task(progress={**RUNS, "input_rows": 0}), False, id="no rows in the last batch"),
        pytest.param(task(), task(progress={**RUNS, "watermark_ms": 3}), False, id="a watermark nobody asked for"),
        pytest.param(task(progress={**RUNS, "input_rows": 0}), task(), True, id="its first rows"),
        pytest.param(task(progress=None), task(), True, id="its first batch"),
        pytest.param(task(), task(progress={**RUNS, "backlog_records": None}), True, id="its lag is unknown"),
        pytest.param(task(), task(progress={**RUNS, "silent_seconds": 11.0}), True, id="its host is silent"),
        pytest.param(
            task(progress={**RUNS, "silent_seconds": 11.0}),
            task(progress={**RUNS, "silent_seconds": 12.0}),
            False,
            id="and goes on being silent",
        ),
        pytest.param(task(), task(progress=QUIET), True, id="it answers an order"),
        pytest.param(task(progress=QUIET), task(progress={**QUIET, "watermark_ms": 9}), True, id="another level"),
        pytest.param(task(progress=QUIET), task(progress={**QUIET, "caught_up": True}), True, id="it has caught up"),
        pytest.param(task(), task(progress={**RUNS, "input_problems": {"x": "y"}}), True, id="a problem of an input"),
        pytest.param(task(), task(state=TaskState.CRASHED, crashes=1, error="x"), True, id="a crash"),
        pytest.param(task(), task(revision=2), True, id="a revision"),
        pytest.param(task(), task(generation=2), True, id="a generation"),
        pytest.param(task(), task(restarts=1), True, id="a restart"),
        pytest.param(task(), task(epoch=2), True, id="an epoch"),
    ],
)
def test_what_somebody_waits_for_is_news(before: TaskReport, after: TaskReport, expected: bool) -> None:
    assert is_news(before, after) == expected


def test_figures_wait_for_each_other() -> None:
    """1. A figure changes: not told. 2. After a while it is. 3. Then the next one waits again."""
    log = new_log()
    log.stored(due(log, batch(task()), 0.0), 0.0)
    faster = task(progress={**RUNS, "processed_rows_per_second": 9.0})
    told = [bool(_changes(log, batch(faster), now).tasks) for now in (2.0, 10.0, 19.0, 21.0)]
    assert told == [False, False, True, False]
    fastest = task(progress={**RUNS, "processed_rows_per_second": 99.0})
    assert _changes(log, batch(fastest), 22.0).tasks == ()


def test_nothing_new_is_one_short_report() -> None:
    log = new_log()
    log.stored(due(log, batch(*map(task, range(100))), 0.0), 0.0)
    changes = _changes(log, batch(*map(task, range(100)), commit=7), 2.0)
    assert (changes.has_news, changes.commit_number, changes.number, changes.after) == (False, 7, 2, 1)


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        pytest.param(batch(task()), True, id="nothing is new"),
        pytest.param(batch(task(), commit=2), False, id="a stop is applied: a rescale waits for it"),
        pytest.param(batch(task()).model_copy(update={"version": 2}), False, id="an assignment"),
        pytest.param(batch(task(revision=2)), False, id="news of a task"),
    ],
)
def test_only_what_nobody_waits_for_may_wait_for_others(present: TaskReportBatch, expected: bool) -> None:
    log = new_log(quiet_seconds=5.0)
    log.stored(due(log, batch(task()), 0.0), 0.0)
    assert _changes(log, present, 6.0).may_wait == expected


def test_a_report_after_one_without_an_answer_does_not_wait() -> None:
    log = new_log(quiet_seconds=5.0)
    log.stored(due(log, batch(task()), 0.0), 0.0)
    log.failed()
    assert not _changes(log, batch(task()), 6.0).may_wait


def _changes(log: ReportLog, present: TaskReportBatch, now: float) -> Any:
    sent = due(log, present, now)
    log.stored(sent, now)
    assert sent.changes is not None
    return sent.changes


@pytest.mark.parametrize(
    ("present", "at", "expected"),
    [
        pytest.param(batch(task()), 4.9, False, id="nothing is new"),
        pytest.param(batch(task()), 5.0, True, id="that was told a while ago"),
        pytest.param(batch(task(), commit=2), 1.0, True, id="a commit"),
        pytest.param(batch(task()).model_copy(update={"version": 2}), 1.0, True, id="an assignment"),
        pytest.param(batch(task(revision=2)), 1.0, True, id="news of a task"),
        pytest.param(batch(), 1.0, True, id="a task that ended"),
        pytest.param(batch(task(), incarnation="two"), 1.0, True, id="another life"),
    ],
)
def test_nothing_new_is_told_every_few_seconds(present: TaskReportBatch, at: float, expected: bool) -> None:
    log = new_log(quiet_seconds=5.0)
    log.stored(due(log, batch(task()), 0.0), 0.0)
    assert (log.next(present, at) is not None) == expected


def test_after_a_report_without_an_answer_the_next_one_is_due_at_once() -> None:
    log = new_log(quiet_seconds=5.0)
    log.stored(due(log, batch(task()), 0.0), 0.0)
    due(log, batch(task()), 6.0)
    log.failed()
    assert due(log, batch(task()), 6.1).number == 3


def test_a_load_is_told_once_and_is_no_part_of_what_is_known() -> None:
    log = new_log()
    log.stored(due(log, batch(task(load={"cpu": 1.0})), 0.0), 0.0)
    assert not _changes(log, batch(task()), 2.0).has_news
    assert _changes(log, batch(task(load={"cpu": 2.0})), 4.0).tasks == (task(load={"cpu": 2.0}),)
    assert not _changes(log, batch(task()), 6.0).has_news


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(lambda log: log.refused(), id="the Task Service asks for it"),
        pytest.param(lambda log: [log.failed() for _ in range(3)], id="three failures in a row"),
        pytest.param(lambda log: log.stored(due(log, batch(incarnation="two"), 1.0), 1.0), id="another life"),
    ],
)
def test_a_full_report_is_due(event: Callable[[ReportLog], None]) -> None:
    log = new_log()
    log.stored(due(log, batch(task()), 0.0), 0.0)
    assert due(log, batch(task()), 1.0).changes is not None
    event(log)
    assert due(log, batch(task()), 1.0).changes is None


def test_a_full_report_comes_after_a_while_and_for_a_service_that_takes_nothing_else() -> None:
    log = new_log(full_seconds=100.0)
    log.stored(due(log, batch(task()), 0.0), 0.0)
    assert due(log, batch(task()), 74.0).changes is not None
    log.stored(due(log, batch(task()), 126.0), 126.0, takes_changes=False)
    assert due(log, batch(task()), 127.0).changes is None


class Network:
    """Between a container and the store: a report arrives, or is lost; its answer is lost; it arrives later, or twice.

    `late`: reports on their way whose sender waits no more.
    """

    def __init__(self, random: Random) -> None:
        self.memory = MemoryStore(lambda: 0.0, 1)
        self.service = MemoryTaskService(self.memory)
        capacity = Capacity(cpu_cores=1, memory_bytes=1, disk_bytes=1)
        joined = HeartbeatRequest(
            container="c1", url="http://c1", region="r", capacity=capacity, incarnation="one", held={}
        )
        ownership.register(self.memory, ownership.member_of(joined), empty=True)
        self.stored: dict[int, TaskReportBatch] = {}
        self._random = random
        self._late: list[Outgoing] = []

    def send(self, report: Outgoing) -> bool | None:
        """The answer, if one comes: whether it was stored."""
        self.stored[report.number] = report.batch
        fate = self._random.choice(("arrives", "arrives", "arrives", "lost", "late", "twice", "unanswered"))
        if fate in ("late", "twice"):
            self._late.append(report)
        answer = self._arrive(report) if fate in ("arrives", "twice", "unanswered") else None
        while self._late and self._random.random() < 0.5:
            self._arrive(self._late.pop(self._random.randrange(len(self._late))))
        return answer if fate in ("arrives", "twice") else None

    def _arrive(self, report: Outgoing) -> bool:
        try:
            if report.changes is not None:
                return self.service.report_changes(report.changes)
            return self.service.report(report.batch, report.number)
        except Unavailable:
            return False

    def is_as_told(self) -> bool:
        """Whether the store has, of its newest report, all tasks and no other, and all that is no figure."""
        entry = self.memory.reports.get("c1")
        if entry is None or entry.number is None:
            return True
        told = {each.index: each for each in self.stored[entry.number].tasks}
        known = {each.index: each for each in self.memory.tasks["c1"]}
        same = all(not is_news(known[index], each) for index, each in told.items() if index in known)
        return told.keys() == known.keys() and same and entry.commit_number == self.stored[entry.number].commit_number


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_on_the_way_the_store_has_what_one_report_said(seed: int) -> None:
    """No task looks absent that is there, and none present that has ended: each stored state is one of the container's.
    Once reports arrive again, it is the newest."""
    random = Random(seed)
    network, log = Network(random), new_log()
    tasks: dict[int, TaskReport] = {}
    for step in range(120):
        for index in random.sample(range(6), random.randrange(3)):
            if random.random() < 0.4:
                tasks.pop(index, None)
            else:
                tasks[index] = task(index, revision=random.randrange(9), epoch=step)
        sent = due(log, batch(*tasks.values(), commit=step), float(step))
        answer = network.send(sent)
        if answer is None:
            log.failed()
        elif answer:
            log.stored(sent, float(step))
        else:
            log.refused()
        assert network.is_as_told()
    assert len({len(each.tasks) for each in network.stored.values()}) > 2
