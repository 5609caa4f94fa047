"""When a host looks for how far a task reads on, and what it says meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from penstock.control.errors import Unavailable
from penstock.control.process import wait_until
from penstock.spark.host import levels
from penstock.spark.host.levels import TaskLevels
from penstock.spark.redistribute.running import Cuts
from penstock.spark.task import RunningTask
from penstock.tasks.spec import TaskSpec
from tests.support.task_manager.world import spec

WAIT_SECONDS = 10.0
GOAL_MS = 5_000
CUTS = {"flights": {0: 7}}
RECORDS = 4


@dataclass
class Task:
    """Of a host: what it is told."""

    spec: TaskSpec
    run_id: str | None = "run-1"
    is_active: bool = True
    told: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)

    def read_to(self, level_ms: int, stop_at: Mapping[str, Any]) -> None:
        self.told.append((level_ms, stop_at))

    def order(self, level_ms: int | None) -> None:
        self.spec = self.spec.model_copy(update={"quiescing": level_ms is not None, "level_ms": level_ms})


@dataclass
class Search:
    """Stands for Kafka and Spark: whether a task can be cut, and where."""

    can_be_cut_now: bool = True
    is_away: bool = False
    asked: list[int] = field(default_factory=list)

    def __call__(self, task: Task) -> Search:
        return self

    def can_be_cut(self) -> bool:
        return self.can_be_cut_now

    def cuts(self, goal_ms: int, is_over: Callable[[], bool]) -> Cuts:
        self.asked.append(goal_ms)
        if self.is_away:
            raise Unavailable("kafka does not answer")
        return Cuts(CUTS, RECORDS)


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch) -> Search:
    search = Search()
    monkeypatch.setattr(levels, "RunningLevel", search)
    monkeypatch.setattr(levels, "_RETRY_SECONDS", 0.0)
    return search


@pytest.fixture
def task() -> Task:
    task = Task(spec())
    task.order(GOAL_MS)
    return task


def asked(known: TaskLevels, task: Task) -> bool | None:
    return known.can_be_cut(cast(RunningTask, task))


def answer(known: TaskLevels, task: Task) -> bool:
    wait_until(lambda: asked(known, task) is not None, WAIT_SECONDS, "an answer")
    return asked(known, task) is True


def test_a_task_is_told_once_where_it_ends_to_read(search: Search, task: Task) -> None:
    known = TaskLevels(1)
    assert answer(known, task)
    assert asked(known, task)
    assert (task.told, search.asked) == ([(GOAL_MS, CUTS)], [GOAL_MS])
    assert known.records(task.spec.task_id) == RECORDS


def test_a_search_that_fails_says_nothing_and_is_repeated(search: Search, task: Task) -> None:
    known = TaskLevels(1)
    search.is_away = True
    wait_until(lambda: (asked(known, task), len(search.asked) > 2)[1], WAIT_SECONDS, "the search to be repeated")
    assert (asked(known, task), task.told, known.records(task.spec.task_id)) == (None, [], None)
    search.is_away = False
    assert answer(known, task)
    assert task.told == [(GOAL_MS, CUTS)]


def test_a_task_that_cannot_be_cut_reads_nothing(search: Search, task: Task) -> None:
    search.can_be_cut_now = False
    assert not answer(TaskLevels(1), task)
    assert (task.told, search.asked) == ([(GOAL_MS, {})], [])


def test_the_order_to_say_the_watermark_needs_no_search(search: Search, task: Task) -> None:
    task.order(0)
    assert answer(TaskLevels(1), task)
    assert (task.told, search.asked) == ([], [])


@pytest.mark.parametrize("change", [lambda task: task.order(6_000), lambda task: setattr(task, "run_id", "run-2")])
def test_another_order_and_another_run_are_another_search(
    search: Search, task: Task, change: Callable[[Task], None]
) -> None:
    known = TaskLevels(1)
    assert answer(known, task)
    change(task)
    assert answer(known, task)
    assert len(search.asked) == 2


def test_a_task_under_no_order_is_not_searched_for(search: Search, task: Task) -> None:
    task.order(None)
    assert asked(TaskLevels(1), task) is False
    assert search.asked == []
