"""Whether the tasks of a job that take no more rows are quiet, and level: a table of what containers say."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.model.reports import TaskState
from penstock.tasks.shards import Sharding
from services.state_syncer.decide.observe import Assignment, ClusterView, JobsTasks, Silent, Unheard
from services.state_syncer.decide.quiet import Behind, Order, Quiet, Unread, observe_quiet
from services.state_syncer.decide.whereabouts import (
    AWAITED_CRASHES,
    Changing,
    Missing,
    ReportedTask,
    Whereabouts,
)

ONE_SHARD = Assignment({0: "b"}, Sharding(1))
CELL = ClusterView(reporting=frozenset("ab"), lost=frozenset("z"), applied_commit=9, assignment=ONE_SHARD)
QUIESCE, LEVEL = Order(9), Order(9, 5_000)
JOB = JobsTasks("j", 3, None)


def task(number: int, watermark_ms: int | None = None, **more: Any) -> ReportedTask:
    """A task that is quiet by the order to read no more."""
    told = {"quiesced": True, "watermark_ms": watermark_ms} | more
    return ReportedTask(**({"container": "a", "number": number, "state": TaskState.RUNNING} | told))


def levelled(number: int, watermark_ms: int = 5_000, **more: Any) -> ReportedTask:
    return task(number, watermark_ms, **{"level_ms": 5_000} | more)


def reading(number: int, backlog_records: int | None, **more: Any) -> ReportedTask:
    return task(number, quiesced=False, backlog_records=backlog_records, **more)


CRASHED: dict[str, Any] = {"state": TaskState.CRASHED, "quiesced": False, "crashes": 1}
AGAIN = CRASHED | {"crashes": AWAITED_CRASHES}
QUIET = Quiet(0, unheard=False)
AWAY = Whereabouts(missing=(Missing(1, "b"),))


@pytest.mark.parametrize(
    ("told", "goal_ms"),
    [
        pytest.param([task(0, 5_000), task(1, 4_000), task(2, 5_000)], 5_000, id="one is behind"),
        pytest.param([task(0, 5_000), task(1, 0), task(2, 5_000)], 5_000, id="one has read nothing that has a time"),
        pytest.param([task(0, 5_000), task(1, 4_000, caught_up=True), task(2, 5_000)], None, id="it is at the end"),
        pytest.param([task(0, 5_000), task(1, 5_000), task(2, 5_000)], None, id="all are level"),
        pytest.param([task(0, 0), task(1, 0), task(2, 0)], None, id="none has a watermark"),
        pytest.param([task(0, 7), task(1, None), task(2, None)], None, id="only one says it"),
        pytest.param([task(0, 5_000), task(1, None), task(2, 5_000)], None, id="one does not say: after the stop"),
        pytest.param([task(0, 4_000), task(1, None), task(2, 5_000)], 5_000, id="one does not say, one is behind"),
        pytest.param(
            [task(0, 5_000), task(1, 9_000, container="z"), task(1, 5_000), task(2, 5_000)],
            None,
            id="what a lost container said is over",
        ),
        pytest.param(
            [task(0, 5_000), task(1, **AGAIN), task(2, state=TaskState.HELD)], None, id="it crashes again, it is held"
        ),
    ],
)
def test_the_tasks_behind_the_greatest_watermark_are_uneven(told: list[ReportedTask], goal_ms: int | None) -> None:
    found = observe_quiet(CELL, told, QUIESCE, JOB)
    assert found == Quiet(0, unheard=False, goal_ms=goal_ms, behind=found.behind)
    assert found.is_certain
    assert bool(found.behind) == (goal_ms is not None)


@pytest.mark.parametrize(
    ("told", "found"),
    [
        pytest.param([levelled(0), levelled(1), levelled(2)], QUIET, id="all have come to it"),
        pytest.param([levelled(0), levelled(1, 3_000, caught_up=True), levelled(2)], QUIET, id="or to the end"),
        pytest.param(
            [levelled(0), task(1, 3_000, backlog_records=7), levelled(2)],
            Quiet(1, unheard=False, furthest=Unread(1, 7)),
            id="what was said of the order before does not count",
        ),
        pytest.param(
            [levelled(0), levelled(1, level_ms=4_000), levelled(2)],
            Quiet(1, unheard=False, furthest=Unread(1, None)),
            id="nor of one to another watermark",
        ),
        pytest.param(
            [reading(0, 8), reading(1, 900), levelled(2)],
            Quiet(2, unheard=False, furthest=Unread(1, 900)),
            id="two read on",
        ),
        pytest.param(
            [reading(0, None), reading(1, 900), levelled(2)],
            Quiet(2, unheard=False, furthest=Unread(0, None)),
            id="unknown is the most",
        ),
        pytest.param(
            [levelled(0), task(1, **CRASHED), levelled(2)],
            Quiet(0, unheard=False, where=Whereabouts(crashed=(1,))),
            id="a task that crashed comes back",
        ),
        pytest.param(
            [levelled(0), task(1, **AGAIN), levelled(2)],
            QUIET,
            id="one that crashes again and again is levelled after the stop",
        ),
        pytest.param(
            [levelled(0), task(1, state=TaskState.HELD, quiesced=False), levelled(2)],
            QUIET,
            id="so is one that is held",
        ),
        pytest.param(
            [levelled(0), levelled(2)], Quiet(0, unheard=False, where=AWAY), id="one moves to another container"
        ),
        pytest.param(
            [levelled(0), levelled(1, container="z"), levelled(2)],
            Quiet(0, unheard=False, where=AWAY),
            id="its container is lost",
        ),
        pytest.param(
            [levelled(0), task(1, None), task(2, None, level_ms=5_000)],
            QUIET,
            id="one is of the release before, one cannot be cut: after the stop",
        ),
        pytest.param(
            [levelled(0), task(1, 4_000, level_ms=0), levelled(2)],
            Quiet(1, unheard=False, furthest=Unread(1, None)),
            id="it has not heard yet that it is to read on",
        ),
        pytest.param(
            [levelled(0), levelled(1, container="z"), levelled(1, container="b"), levelled(2)],
            QUIET,
            id="and it runs elsewhere since",
        ),
        pytest.param(
            [levelled(0), levelled(1, 8_000), levelled(2)],
            Quiet(0, unheard=False, goal_ms=8_000, behind=(Behind(0, 5_000, None, None), Behind(2, 5_000, None, None))),
            id="one came back beyond the watermark",
        ),
    ],
)
def test_tasks_that_read_on_are_awaited(told: list[ReportedTask], found: Quiet) -> None:
    assert observe_quiet(CELL, told, LEVEL, JOB) == found._replace(level_ms=5_000)


@pytest.mark.parametrize("order", [QUIESCE, QUIESCE._replace(level_ms=0), LEVEL])
@pytest.mark.parametrize(
    ("second", "where"),
    [
        pytest.param([], AWAY, id="nobody reports it"),
        pytest.param([{"container": "z"}], AWAY, id="its container is lost"),
        pytest.param([CRASHED], Whereabouts(crashed=(1,)), id="it crashed, perhaps with its host"),
        pytest.param(
            [{"state": TaskState.STOPPING}],
            Whereabouts(changing=(Changing(1, "a", TaskState.STOPPING),)),
            id="it moves",
        ),
    ],
)
def test_a_task_that_was_lost_is_not_quiet(second: list[dict[str, Any]], where: Whereabouts, order: Order) -> None:
    """Whatever the tasks were asked: all others have done it."""
    told = [levelled(number, level_ms=order.level_ms) for number in (0, 2)]
    found = observe_quiet(
        CELL, [*told, *(levelled(1, **{"level_ms": order.level_ms} | each) for each in second)], order, JOB
    )
    assert found == Quiet(0, unheard=False, level_ms=order.level_ms, where=where)
    assert not found.is_certain
    whole = [levelled(number, level_ms=order.level_ms) for number in range(3)]
    assert observe_quiet(CELL, whole, order, JOB).is_certain


def test_a_task_that_starts_again_is_awaited_until_it_has_answered_the_order() -> None:
    told = [levelled(0), reading(1, None, container="b", state=TaskState.STARTING), levelled(2)]
    found = observe_quiet(CELL, told, LEVEL, JOB)
    assert (found.busy, found.where.changing) == (1, (Changing(1, "b", TaskState.STARTING),))
    running = [told[0], reading(1, None, container="b"), told[2]]
    found = observe_quiet(CELL, running, LEVEL, JOB)
    assert (found.busy, found.where.all_run, found.is_certain) == (1, True, False)
    assert observe_quiet(CELL, [told[0], levelled(1, container="b"), told[2]], LEVEL, JOB).is_certain


@pytest.mark.parametrize("silent", ["a", "b"])
def test_what_a_container_said_that_is_silent_now_is_unknown(silent: str) -> None:
    """One that has tasks, or the shards of some. Another may be silent."""
    told = [levelled(number) for number in range(3)]
    cell = replace(CELL, silent={silent: 13.4})
    found = observe_quiet(cell, told, LEVEL, JOB)
    assert (found.where, found.is_certain) == (Whereabouts(silent=(Silent(silent, 13.4),)), False)
    elsewhere = replace(cell, silent={"c": 13.4})
    assert observe_quiet(elsewhere, told, LEVEL, JOB).is_certain
    assert not observe_quiet(elsewhere, told, LEVEL).is_certain, "it is unknown who has the job's shards"


@pytest.mark.parametrize("unheard", ["a", "b"])
def test_so_is_what_a_container_said_whose_reports_do_not_arrive(unheard: str) -> None:
    told = [levelled(number) for number in range(3)]
    cell = replace(CELL, unheard={unheard: 13.4})
    found = observe_quiet(cell, told, LEVEL, JOB)
    assert (found.where, found.is_certain) == (Whereabouts(unheard=(Unheard(unheard, 13.4),)), False)
    elsewhere = replace(cell, unheard={"c": 13.4})
    assert observe_quiet(elsewhere, told, LEVEL, JOB).is_certain
    assert not observe_quiet(elsewhere, told, LEVEL).is_certain, "it is unknown who has the job's shards"


def test_a_task_whose_host_is_silent_may_be_in_a_batch() -> None:
    assert observe_quiet(CELL, [levelled(0), levelled(1, is_silent=True), levelled(2)], LEVEL, JOB).busy == 1


def test_an_order_that_only_asks_for_watermarks_is_answered_by_either_release() -> None:
    """One of the release before does not know that it is asked."""
    asked = QUIESCE._replace(level_ms=0)
    told = [task(0, 5_000, level_ms=0), task(1, None), task(2, 5_000, level_ms=0)]
    assert observe_quiet(CELL, told, asked, JOB) == Quiet(0, unheard=False, level_ms=0)


@pytest.mark.parametrize(
    ("task", "seconds"),
    [
        pytest.param(Behind(0, 10_000, 1_000, 5.0), 50.0, id="a quarter of its backlog lies before the goal"),
        pytest.param(Behind(0, 0, 1_000, 5.0), None, id="nobody knows how far it is without a watermark"),
        pytest.param(Behind(0, 10_000, None, 5.0), None, id="nor without a backlog"),
        pytest.param(Behind(0, 10_000, 1_000, None), None, id="nor without a rate"),
    ],
)
def test_how_long_a_task_needs_to_read_on(task: Behind, seconds: float | None) -> None:
    quiet = Quiet(0, unheard=False, goal_ms=20_000, behind=(task, Behind(1, 15_000, 1, 5.0)))
    slowest = quiet.seconds_to_goal(datetime.fromtimestamp(50, UTC))
    assert slowest == (seconds or pytest.approx(1 / 7 / 5))


@pytest.mark.parametrize("order", [QUIESCE, LEVEL])
def test_nothing_is_certain_before_every_container_has_heard_of_the_order(order: Order) -> None:
    told = [levelled(number, level_ms=order.level_ms) for number in range(3)]
    for cell in (replace(CELL, applied_commit=8), replace(CELL, applied_commit=None)):
        for of in (JOB, None):
            unowned = replace(cell, assignment=Assignment({}, Sharding(1)))
            assert observe_quiet(unowned, told, order, of) == Quiet(0, unheard=True, level_ms=order.level_ms)
    assert observe_quiet(CELL, [*told, task(3, container="nobody")], order, JOB).unheard


@pytest.mark.parametrize(
    ("quiet", "text"),
    [
        (Quiet(2, unheard=False), "2 tasks have not finished their batches"),
        (Quiet(), "not every container has reported since the order"),
        (QUIET, "all tasks have finished their batches"),
        (Quiet(level_ms=0), "not every container has reported since the order"),
        (Quiet(level_ms=5_000), "not every container has reported since the order"),
        (Quiet(0, unheard=False, level_ms=5_000), "all tasks have read on"),
        (
            Quiet(0, unheard=False, level_ms=5_000, where=Whereabouts(missing=(Missing(2, "b"),), crashed=(1,))),
            "no container reports task 2, which b is to run; task 1 has crashed and is awaited",
        ),
        (
            Quiet(1, unheard=False, where=Whereabouts(changing=(Changing(0, "b", TaskState.STARTING),))),
            "1 task has not finished its batch; task 0 is starting on b",
        ),
        (
            Quiet(0, unheard=False, where=Whereabouts(silent=(Silent("a", 13.4),), missing=(Missing(2),))),
            "a has not reported for 13 s; no container reports task 2, and no container has its shard",
        ),
        (
            Quiet(0, unheard=False, where=Whereabouts(crashed=tuple(range(5)))),
            "task 0 has crashed and is awaited; task 1 has crashed and is awaited; task 2 has crashed and is awaited;"
            " and 2 more like this",
        ),
        (
            Quiet(2, unheard=False, level_ms=1_700_000_000_500, furthest=Unread(3, 12_345)),
            "2 tasks read on to the greatest watermark of all, 2023-11-14T22:13:20.500Z; task 3 has 12,345"
            " records in its inputs, of which it reads those before that",
        ),
        (
            Quiet(1, unheard=False, level_ms=1_700_000_000_000_000, furthest=Unread(0, 1)),
            "1 task reads on to the greatest watermark of all, 1700000000000000 ms; task 0 has 1"
            " records in its inputs, of which it reads those before that",
        ),
        (
            Quiet(1, unheard=False, level_ms=5_000, furthest=Unread(0, 9_000, 1_200)),
            "1 task reads on to the greatest watermark of all, 1970-01-01T00:00:05.000Z; task 0 reads 1,200 records for"
            " that",
        ),
        (
            Quiet(1, unheard=False, level_ms=5_000, furthest=Unread(0, None)),
            "1 task reads on to the greatest watermark of all, 1970-01-01T00:00:05.000Z; the host of task 0 looks for"
            " the record at which it stops",
        ),
        (
            Quiet(1, unheard=False, level_ms=5_000, furthest=Unread(0, None, is_silent=True)),
            "1 task reads on to the greatest watermark of all, 1970-01-01T00:00:05.000Z; the host of task 0 says"
            " nothing: how many records that is, is unknown",
        ),
    ],
)
def test_people_are_told_how_far_it_is(quiet: Quiet, text: str) -> None:
    assert str(quiet) == text
