"""Whether the tasks of a job that take no more rows are quiet, and level: a table of what containers say."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.model.reports import TaskState
from services.state_syncer.decide.observe import (
    AWAITED_CRASHES,
    Behind,
    ClusterView,
    Order,
    Quiet,
    ReportedTask,
    Unread,
    observe_quiet,
)

CELL = ClusterView(reporting=frozenset("ab"), lost=frozenset("z"), applied_commit=9)
QUIESCE, LEVEL = Order(9, None, 3), Order(9, 5_000, 3)


def task(number: int, watermark_ms: int | None = None, **more: Any) -> ReportedTask:
    """A task that is quiet by the order to read no more."""
    told = {"quiesced": True, "watermark_ms": watermark_ms} | more
    return ReportedTask(**({"container": "a", "number": number, "state": TaskState.RUNNING} | told))


def levelled(number: int, watermark_ms: int = 5_000, **more: Any) -> ReportedTask:
    return task(number, watermark_ms, **{"level_ms": 5_000} | more)


def reading(number: int, backlog_records: int | None, **more: Any) -> ReportedTask:
    return task(number, quiesced=False, backlog_records=backlog_records, **more)


CRASHED: dict[str, Any] = {"state": TaskState.CRASHED, "quiesced": False, "crashes": 1}
QUIET = Quiet(0, unheard=False)


@pytest.mark.parametrize(
    ("told", "goal_ms"),
    [
        pytest.param([task(0, 5_000), task(1, 4_000), task(2, 5_000)], 5_000, id="one is behind"),
        pytest.param([task(0, 5_000), task(1, 0), task(2, 5_000)], 5_000, id="one has read nothing that has a time"),
        pytest.param([task(0, 5_000), task(1, 4_000, caught_up=True), task(2, 5_000)], None, id="it is at the end"),
        pytest.param([task(0, 5_000), task(1, 5_000), task(2, 5_000)], None, id="all are level"),
        pytest.param([task(0, 0), task(1, 0), task(2, 0)], None, id="none has a watermark"),
        pytest.param([task(0, 7)], None, id="a single task"),
        pytest.param([task(0, 5_000), task(1, None), task(2, 5_000)], None, id="one does not say: after the stop"),
        pytest.param([task(0, 4_000), task(1, None), task(2, 5_000)], 5_000, id="one does not say, one is behind"),
        pytest.param([task(0, 5_000), task(1, 9_000, container="z")], None, id="what a lost container said is over"),
        pytest.param([task(0, 5_000), task(1, **CRASHED), task(2, state=TaskState.HELD)], None, id="crashed, held"),
    ],
)
def test_the_tasks_behind_the_greatest_watermark_are_uneven(told: list[ReportedTask], goal_ms: int | None) -> None:
    found = observe_quiet(CELL, told, QUIESCE)
    assert found == Quiet(0, unheard=False, goal_ms=goal_ms, behind=found.behind)
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
            Quiet(0, unheard=False, crashed=(1,)),
            id="a task that crashed comes back",
        ),
        pytest.param(
            [levelled(0), task(1, **CRASHED | {"crashes": AWAITED_CRASHES}), levelled(2)],
            QUIET,
            id="one that crashes again and again is levelled after the stop",
        ),
        pytest.param(
            [levelled(0), task(1, state=TaskState.HELD, quiesced=False), levelled(2)],
            QUIET,
            id="so is one that is held",
        ),
        pytest.param(
            [levelled(0), levelled(2)], Quiet(0, unheard=False, missing=(1,)), id="one moves to another container"
        ),
        pytest.param(
            [levelled(0), levelled(1, container="z"), levelled(2)],
            Quiet(0, unheard=False, missing=(1,)),
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
    assert observe_quiet(CELL, told, LEVEL) == found._replace(level_ms=5_000)


def test_an_order_that_only_asks_for_watermarks_is_answered_by_either_release() -> None:
    """One of the release before does not know that it is asked."""
    asked = QUIESCE._replace(level_ms=0)
    told = [task(0, 5_000, level_ms=0), task(1, None), task(2, 5_000, level_ms=0)]
    assert observe_quiet(CELL, told, asked) == Quiet(0, unheard=False, level_ms=0)
    assert observe_quiet(CELL, told[:2], asked) == Quiet(0, unheard=False, level_ms=0), "nobody reads on"


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
        assert observe_quiet(cell, told, order) == Quiet(0, unheard=True, level_ms=order.level_ms)
    assert observe_quiet(CELL, [*told, task(3, container="nobody")], order).unheard


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
            Quiet(0, unheard=False, level_ms=5_000, crashed=(1,), missing=(2,)),
            "task 1 has crashed and is awaited; task 2 runs nowhere yet and is awaited",
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
            Quiet(1, unheard=False, level_ms=5_000, furthest=Unread(0, None)),
            "1 task reads on to the greatest watermark of all, 1970-01-01T00:00:05.000Z; it is unknown how many records"
            " task 0 has in its inputs",
        ),
    ],
)
def test_people_are_told_how_far_it_is(quiet: Quiet, text: str) -> None:
    assert str(quiet) == text
