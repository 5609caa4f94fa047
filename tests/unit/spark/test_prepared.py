"""Which tasks are prepared, for how long, and for which query alone that is used. Without Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.spark import prepared
from penstock.spark.channel import Access
from penstock.spark.host import tasks as host_tasks
from penstock.spark.host.tasks import TaskTable
from penstock.spark.prepared import MOST, MOST_SECONDS, PreparedTasks
from penstock.spark.settings import SparkSettings
from penstock.tasks.spec import TaskSpec
from tests.support.task_manager import world

NO_TABLES = {"tables": {"planes": None}}
SETTINGS = SparkSettings(checkpoint_root="/c", kafka_bootstrap="k:1")


def spec(job: str = "flights", **more: Any) -> TaskSpec:
    """The first task of a job that reads a topic and nothing else."""
    return world.spec(job, **NO_TABLES, **more)


class Stores:
    """What was loaded for a task."""

    def __init__(self) -> None:
        self.dropped = False

    def drop(self, runtime: Any) -> None:
        self.dropped = True


class Task:
    """A task that runs as soon as it is started."""

    def __init__(self, runtime: Host, spec: TaskSpec, epoch: int, mark: Any) -> None:
        self.spec, self.epoch, self.prepared = spec, epoch, None
        self.token = self.checkpoint = ""

    def start(self) -> None:
        """Nothing more."""


class Host:
    """A runtime whose frames are made of nothing. `meanwhile`: what happens while a frame is made."""

    settings = SETTINGS

    def __init__(self) -> None:
        self.made: list[str] = []
        self.stores: list[Stores] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def for_job(self, access: Access) -> Host:
        return self

    def checkpoint(self, job: str, generation: int, index: int) -> str:
        return f"/c/{job}/g{generation}/{index}"

    def frame(self, runtime: Host, spec: TaskSpec, checkpoint: str, token: str) -> Any:
        assert token == ""
        self.made.append(spec.task_id)
        self.meanwhile()
        return type("Frame", (), {"frame": type("DataFrame", (), {"sparkSession": None})})

    def preload(self, runtime: Host, spec: TaskSpec, session: None) -> Stores:
        self.stores.append(Stores())
        return self.stores[-1]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host()
    monkeypatch.setattr(prepared, "make_frame", made.frame)
    monkeypatch.setattr(prepared, "preload", made.preload)
    return made


def make(tasks: PreparedTasks, host: Any, task: TaskSpec, at: float = 0.0) -> bool:
    return tasks.make(host, task, at)


def test_the_same_query_is_made_once_and_taken_once(host: Host) -> None:
    """A later revision may ask for the same query."""
    tasks = PreparedTasks()
    assert [make(tasks, host, spec(revision=revision)) for revision in (1, 2)] == [True, True]
    assert host.made == ["flights/0"]
    taken = [tasks.take(spec(revision=3), SETTINGS, 1.0) for _ in range(2)]
    assert [found is not None for found in taken] == [True, False]
    assert not host.stores[0].dropped


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        (spec(generation=2), SETTINGS),
        (spec(task_count=3), SETTINGS),
        (spec(priority=7), SETTINGS),
        (spec(), SETTINGS.for_job({"db": "postgresql://other"}, {})),
        (spec(), SETTINGS.for_job({}, {"key": "another"})),
    ],
)
def test_what_was_made_for_another_query_is_given_up(host: Host, task: TaskSpec, settings: SparkSettings) -> None:
    tasks = PreparedTasks()
    make(tasks, host, spec())
    assert tasks.take(task, settings, 1.0) is None
    assert host.stores[0].dropped
    assert tasks.take(spec(), SETTINGS, 1.0) is None


def test_another_query_of_a_task_takes_the_place_of_the_former(host: Host) -> None:
    tasks = PreparedTasks()
    make(tasks, host, spec())
    make(tasks, host, spec(generation=2))
    assert [each.dropped for each in host.stores] == [True, False]
    assert tasks.take(spec(generation=2), SETTINGS, 1.0) is not None


def test_no_more_than_so_many_are_kept_and_none_for_long(host: Host) -> None:
    """1. One too many is not made. 2. All are given up in time. 3. There is room again."""
    tasks = PreparedTasks()
    made = [make(tasks, host, spec(f"job-{number}"), at=number) for number in range(MOST + 1)]
    assert made == [True] * MOST + [False]
    assert not tasks.forget_old(MOST_SECONDS)
    assert tasks.forget_old(MOST_SECONDS + MOST)
    assert all(each.dropped for each in host.stores)
    assert make(tasks, host, spec("one-more"))


def test_stores_that_the_query_has_not_taken_soon_are_given_up(host: Host) -> None:
    tasks = PreparedTasks()
    make(tasks, host, spec())
    tasks.take(spec(), SETTINGS, 10.0)
    assert not tasks.forget_old(60.0)
    assert tasks.forget_old(71.0)
    assert host.stores[0].dropped


def test_a_task_that_has_moved_on_is_given_up_by_name(host: Host) -> None:
    tasks = PreparedTasks()
    make(tasks, host, spec())
    tasks.give_up("flights/0")
    tasks.give_up("flights/1")
    assert host.stores[0].dropped
    assert tasks.take(spec(), SETTINGS, 1.0) is None


def test_a_query_that_looks_at_tables_is_not_made_ahead(host: Host) -> None:
    """They may change until the start."""
    assert not make(PreparedTasks(), host, world.spec())
    assert host.made == []


@pytest.fixture
def table(host: Host, monkeypatch: pytest.MonkeyPatch) -> TaskTable:
    monkeypatch.setattr(host_tasks, "RunningTask", Task)
    runtime: Any = host
    return TaskTable(runtime)


def running(table: TaskTable) -> Any:
    return table._tasks["flights/0"]


def test_a_task_of_an_earlier_generation_may_run_meanwhile_and_none_of_this_one(host: Host, table: TaskTable) -> None:
    """1. Generation 1 runs; 2 is prepared. 3. Its start uses that. 4. Then there is nothing to prepare for 2, nor 1."""
    table.start(spec(generation=1), 1)
    assert table.prepare(spec(generation=2)) == {"prepared": True}
    table._tasks.clear()
    table.start(spec(generation=2), 2)
    assert running(table).prepared is not None
    assert [table.prepare(spec(generation=number))["prepared"] for number in (2, 1)] == [False, False]
    assert len(host.made) == 1


def test_what_is_made_while_the_task_starts_is_given_up(host: Host, table: TaskTable) -> None:
    """The start does not wait for it."""
    host.meanwhile = lambda: table.start(spec(), 1) and None
    assert table.prepare(spec()) == {"prepared": False}
    assert running(table).prepared is None
    assert host.stores[0].dropped
