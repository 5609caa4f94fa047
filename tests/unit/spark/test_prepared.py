"""Which tasks are prepared, for how long, and for which query alone that is used. Without Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.control.process import wait_until
from penstock.spark import prepared
from penstock.spark.channel import Access
from penstock.spark.host import tasks as host_tasks
from penstock.spark.host.tasks import TaskTable
from penstock.spark.prepared import MOST, MOST_SECONDS, PreparedTasks
from penstock.spark.redistribute import preload as ahead
from penstock.spark.redistribute.stores import StateStoreInfo
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
        self.dropped = self.heap_is_short = False

    def drop(self, runtime: Any) -> None:
        self.dropped = True

    def drop_if_short(self, runtime: Any) -> bool:
        return self.heap_is_short


class Task:
    """A task that runs as soon as it is started."""

    def __init__(self, runtime: Host, spec: TaskSpec, epoch: int, mark: Any) -> None:
        self.spec, self.epoch, self.prepared = spec, epoch, None
        self.token = self.checkpoint = ""

    def start(self) -> None:
        """Nothing more."""


class Host:
    """A runtime whose frames are made of nothing. `meanwhile`: what happens while a frame is made; `while_loading`:
    while its stores are loaded. `interrupted`: what was under way, and was to end."""

    settings = SETTINGS
    java_context = None

    def __init__(self) -> None:
        self.made: list[str] = []
        self.stores: list[Stores] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self.while_loading: Callable[[], None] = lambda: None
        self.watch = self
        self.under_way: set[str] = set()
        self.interrupted: list[str] = []

    def for_job(self, access: Access) -> Host:
        return self

    def checkpoint(self, job: str, generation: int, index: int) -> str:
        return f"/c/{job}/g{generation}/{index}"

    def frame(self, runtime: Host, spec: TaskSpec, checkpoint: str, token: str) -> Any:
        assert token == ""
        self.made.append(spec.task_id)
        self.meanwhile()
        return type("Frame", (), {"frame": type("DataFrame", (), {"sparkSession": None})})

    def preload(self, runtime: Host, spec: TaskSpec, session: None, begins: Callable[[Any], bool]) -> Stores:
        stores = Stores()
        self.stores.append(stores)
        if begins(stores):
            self.while_loading()
        return stores

    def starts(self, context: None, name: str) -> None:
        self.under_way.add(name)

    def started(self, context: None, name: str) -> None:
        self.under_way.remove(name)

    def interruptStart(self, context: None, name: str) -> bool:
        self.interrupted += [name] if name in self.under_way else []
        return name in self.under_way


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


def test_a_start_takes_over_what_is_being_made_for_it(host: Host, table: TaskTable) -> None:
    """It is made once."""
    with ThreadPoolExecutor(1) as pool:
        starts: list[Future[Any]] = []
        host.meanwhile = lambda: starts.append(started(pool, table))
        assert table.prepare(spec()) == {"prepared": True}
        starts[0].result(10)
    assert running(table).prepared is not None
    assert not host.stores[0].dropped
    assert table._prepared.take(spec(), SETTINGS, 1.0) is None


def test_a_start_does_not_wait_for_what_is_made_for_another_query(host: Host, table: TaskTable) -> None:
    host.meanwhile = lambda: table.start(spec(priority=7), 1) and None
    assert table.prepare(spec()) == {"prepared": False}
    assert running(table).prepared is None
    assert host.stores == []


def test_a_start_waits_for_so_long_and_then_makes_it_itself(
    host: Host, table: TaskTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "WAIT_SECONDS", 0.0)
    host.while_loading = lambda: table.start(spec(), 1) and None
    assert table.prepare(spec()) == {"prepared": False}
    assert running(table).prepared is None
    assert host.stores[0].dropped


def test_a_start_does_not_wait_for_what_was_given_up(host: Host, table: TaskTable) -> None:
    """A prepare that hangs: `test_prepare_queue`."""
    given_up = threading.Event()

    def give_up_and_start() -> None:
        given_up.set()
        table.give_up("flights/0", 1)
        table.start(spec(), 1)

    host.meanwhile = give_up_and_start
    assert table.prepare(spec(), given_up=given_up) == {"prepared": False}
    assert running(table).prepared is None
    assert (len(host.interrupted), host.under_way, host.stores) == (1, set(), [])


def test_what_is_given_up_while_its_stores_are_loaded_is_dropped_at_once(host: Host, table: TaskTable) -> None:
    """So that the load ends."""
    dropped: list[bool] = []

    def give_up() -> None:
        table.give_up("flights/0", 1)
        dropped.append(host.stores[0].dropped)

    host.while_loading = give_up
    assert table.prepare(spec()) == {"prepared": False}
    assert dropped == [True]


def test_another_query_of_a_task_does_not_wait_for_the_former_that_hangs(host: Host) -> None:
    """1. While the first is loaded, that of the next generation is made. 2. The first ends: it changes nothing."""
    tasks = PreparedTasks()
    made: list[bool] = []

    def next_one() -> None:
        host.while_loading = lambda: None
        made.append(make(tasks, host, spec(generation=2)))

    host.while_loading = next_one
    assert not make(tasks, host, spec())
    assert (made, [each.dropped for each in host.stores]) == ([True], [True, False])
    assert tasks.take(spec(generation=2), SETTINGS, 1.0) is not None


def test_what_cannot_be_made_leaves_the_start_to_itself(host: Host, table: TaskTable) -> None:
    def fail() -> None:
        starts.append(started(pool, table))
        raise OSError("disk")

    with ThreadPoolExecutor(1) as pool:
        starts: list[Future[Any]] = []
        host.meanwhile = fail
        with pytest.raises(OSError, match="disk"):
            table.prepare(spec())
        starts[0].result(10)
    assert running(table).prepared is None


def test_what_is_given_up_while_it_is_made_is_not_kept(host: Host, table: TaskTable) -> None:
    """Only that of the generation that is named."""
    host.meanwhile = lambda: table.give_up("flights/0", 2) and None
    assert table.prepare(spec(generation=3)) == {"prepared": True}
    host.meanwhile = lambda: table.give_up("flights/0", 4) and None
    assert table.prepare(spec(generation=4)) == {"prepared": False}
    assert [each.dropped for each in host.stores] == [True]
    assert len(host.interrupted) == 1


def test_what_is_made_after_its_task_has_looked_is_given_up(host: Host, table: TaskTable) -> None:
    task: Any = Task(host, spec(), 1, None)
    host.meanwhile = lambda: table._tasks.update({"flights/0": task})
    assert table.prepare(spec()) == {"prepared": False}
    assert host.stores[0].dropped


def test_that_stores_were_given_up_for_room_is_told(host: Host) -> None:
    tasks = PreparedTasks()
    make(tasks, host, spec())
    assert not tasks.forget_old(1.0)
    host.stores[0].heap_is_short = True
    assert tasks.forget_old(1.0)


def started(pool: ThreadPoolExecutor, table: TaskTable) -> Future[Any]:
    """A start in another thread, that has looked for what is being made."""
    start = pool.submit(table.start, spec(), 1)
    wait_until(lambda: table._prepared._making["flights/0"].is_awaited, 10, "the start to wait")
    return start


class _Calls:
    """The JVM's side of a preload, whose second store cannot be read."""

    def __init__(self) -> None:
        self.dropped: list[str] = []
        self.io = self.penstock = self.spark42 = self.state = self.PreloadedStores = self

    def Preload(self, session: Any, folder: str, *more: Any) -> _Calls:
        return self

    def load(self, operator: int, *more: Any) -> int:
        if operator:
            raise OSError("no such file")
        return 2

    def drop(self, folder: str) -> None:
        self.dropped.append(folder)


def test_a_preload_that_fails_leaves_nothing(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    stores = [StateStoreInfo(operator, "", "default", 0) for operator in (0, 1)]
    copied = SimpleNamespace(id="c1", version=1, stores=stores)
    monkeypatch.setattr(ahead, "_copied", lambda *_: copied)
    monkeypatch.setattr(ahead, "_join_format_version", lambda *_: 1)
    monkeypatch.setattr(ahead, "CheckpointWriter", lambda _, path: SimpleNamespace(qualified_folder=f"file:{path}"))
    calls = _Calls()
    runtime: Any = SimpleNamespace(spark=SimpleNamespace(_jvm=calls), checkpoint=host.checkpoint)
    session: Any = SimpleNamespace(_jsparkSession=None)
    with pytest.raises(OSError, match="no such file"):
        ahead.preload(runtime, spec(), session, lambda stores: True)
    assert calls.dropped == ["file:/c/flights/g1/0"]
