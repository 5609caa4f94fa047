"""Loads of tasks and capacities of containers on their way into the store, and out of it again."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from sqlalchemy import Engine, text

from penstock.model.reports import TaskProgress, TaskReport, TaskReportBatch, TaskState
from penstock.store.engine import transaction
from penstock.store.loads import read_loads
from penstock.tasks.dimensions import CPU, DISK, MEMORY, NETWORK
from penstock.tasks.loads import JobTasks, TaskLoad
from penstock.tasks.ownership import Member
from services.shard_manager.store.members import declare_lost, read_members, register
from services.shard_manager.store.port import ShardStore
from services.task_service.store.reports import purge_loads, save_report
from tests.support.store.running import break_row, commit_job

LOAD = {CPU: 0.0, MEMORY: 2.5e6}


@pytest.fixture
def engine(engine: Engine) -> Engine:
    with transaction(engine) as connection:
        register(connection, Member("x", "1", "http://x", "local", 1.0, 1, 1), empty=True)
    return engine


def report(engine: Engine, loads: Mapping[int, dict[str, float] | None], generation: int = 1) -> None:
    tasks = tuple(
        TaskReport(
            job="a",
            index=index,
            state=TaskState.RUNNING,
            revision=1,
            generation=generation,
            restarts=0,
            epoch=1,
            load=load,
        )
        for index, load in loads.items()
    )
    batch = TaskReportBatch(container="x", incarnation="1", commit_number=1, version=1, tasks=tasks)
    with transaction(engine) as connection:
        save_report(connection, batch)


def stored(engine: Engine) -> list[TaskLoad]:
    with transaction(engine) as connection:
        return sorted(read_loads(connection), key=lambda load: (load.job, load.number))


def test_a_load_stays_as_it_was_told_last(engine: Engine) -> None:
    """1. Two loads. 2. A report without. 3. One is told anew, of a later generation. 4. The tasks run nowhere."""
    report(engine, {0: LOAD, 1: {CPU: 1.0}})
    assert stored(engine) == [TaskLoad("a", 0, 1, LOAD), TaskLoad("a", 1, 1, {CPU: 1.0})]
    report(engine, {0: None, 1: None})
    assert len(stored(engine)) == 2
    report(engine, {0: {DISK: 7.0}}, generation=2)
    assert stored(engine)[0] == TaskLoad("a", 0, 2, {DISK: 7.0})
    report(engine, {})
    assert len(stored(engine)) == 2


@pytest.mark.parametrize(
    ("progress", "revision", "is_proven"),
    [
        (TaskProgress(batch_id=3, input_rows=5), 1, True),
        (TaskProgress(batch_id=3, input_rows=0), 1, False),
        (None, 1, False),
        (TaskProgress(batch_id=3, input_rows=5), 2, False),
    ],
)
def test_a_batch_with_rows_proves_the_package_of_the_revision_that_ran_it(
    engine: Engine, progress: TaskProgress | None, revision: int, *, is_proven: bool
) -> None:
    commit_job(engine, "a")
    task = TaskReport(
        job="a",
        index=0,
        state=TaskState.RUNNING,
        revision=revision,
        generation=1,
        restarts=0,
        epoch=1,
        progress=progress,
    )
    batch = TaskReportBatch(container="x", incarnation="1", commit_number=1, version=1, tasks=(task,))
    for _ in range(2):
        with transaction(engine) as connection:
            save_report(connection, batch)
    with transaction(engine) as connection:
        found = connection.execute(text("SELECT p.job FROM proven p JOIN running r USING (job, code)")).scalars().all()
    assert found == (["a"] if is_proven else [])


def test_a_load_outlives_the_container_that_measured_it(engine: Engine) -> None:
    report(engine, {0: LOAD})
    with transaction(engine) as connection:
        assert declare_lost(connection, {"x": "1"}, 60.0) == {"x"}
        assert connection.execute(text("SELECT count(*) FROM tasks")).scalar_one() == 0
        assert read_loads(connection, "a") == [TaskLoad("a", 0, 1, LOAD)]
        assert read_loads(connection, "b") == []


def test_loads_that_nobody_tells_any_more_are_purged(engine: Engine) -> None:
    report(engine, {0: LOAD, 1: LOAD})
    with transaction(engine) as connection:
        connection.execute(text("UPDATE task_loads SET measured_at = now() - interval '15 days' WHERE index = 1"))
        assert purge_loads(connection, keep_days=14) == 1
    assert [load.number for load in stored(engine)] == [0]


def test_only_jobs_whose_tasks_should_run_are_read(engine: Engine) -> None:
    commit_job(engine, "b", task_count=2, isolation="process", region="east", priority=-3)
    commit_job(engine, "a", task_count=1, resources={"cpu_cores": 2.0, "memory_bytes": 2**30, "disk_bytes": 0})
    commit_job(engine, "gone", stopping=True)
    break_row(engine, "broken")
    commit_job(engine, "off", desired_state="stopped")
    first, second = ShardStore(engine).jobs()
    assert first == JobTasks("a", 1, 1, False, {CPU: 2.0, MEMORY: 2**30, DISK: 0})
    assert (second.job, second.task_count, second.has_own_processes) == ("b", 2, True)
    assert second.reserved.keys() == {CPU, MEMORY, DISK}
    assert (second.selector, second.priority) == ("east", -3)


def test_a_container_offers_further_dimensions_by_name(engine: Engine) -> None:
    """A later life may offer others."""
    offers = Member("y", "1", "http://y", "local", 2.0, 8, 9, further_capacity={NETWORK: 1e8}, labels={"disk": "ssd"})
    with transaction(engine) as connection:
        register(connection, offers, empty=True)
        assert read_members(connection)["y"] == offers
        register(connection, offers._replace(incarnation="2", further_capacity={"gpus": 1.0}, labels={}), empty=True)
        members = read_members(connection)
    assert members["y"].capacity() == {CPU: 2.0, MEMORY: 8.0, DISK: 9.0, "gpus": 1.0}
    assert members["x"].capacity() == {CPU: 1.0, MEMORY: 1.0, DISK: 1.0}
    assert members["y"].labels == {}
