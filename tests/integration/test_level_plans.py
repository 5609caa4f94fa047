"""Rescales whose tasks first read on to one watermark: a story of the State Syncer on a real Postgres."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine

from tests.support.state_syncer.cell import Cell


@pytest.fixture
def cell(engine: Engine) -> Cell:
    return Cell(engine, ("a", "b"))


def test_tasks_that_are_behind_read_on_before_the_stop_and_a_leader_carries_on(cell: Cell) -> None:
    """1. Both tasks are quiet, one is behind: it is to read on. 2. Another leader: what was said of the order before is
    no answer, and `/sync` says what is left. 3. Both answer: the stop is committed, which ends the order."""
    cell.is_quiet_at_once = False
    cell.rescaling()
    cell.rounds(1)
    assert cell.running()["level_ms"] == 0
    behind: list[Any] = [{"quiesced": True, "level_ms": 0, "watermark_ms": each} for each in (5_000, 4_000)]
    tell(cell, behind)
    cell.round()
    order = cell.running()
    assert (order["stopping"], order["level_ms"], cell.step()) == (False, 5_000, "quiesce")
    assert order["commit_number"] == order["level_commit"] == order["quiescing_commit"]
    cell.restart()
    tell(cell, [behind[0] | {"level_ms": 5_000}, behind[1] | {"backlog_records": 70}])
    cell.round()
    assert cell.running() == order
    assert cell.sync()["detail"] == (
        "level: 1 task reads on to the greatest watermark of all, 1970-01-01T00:00:05.000Z; task 1 has 70 records"
        " in its inputs, of which it reads those before that"
    )
    tell(cell, [behind[0] | {"level_ms": 5_000}, {}])
    cell.round()
    told, since = cell.sync()["detail"], cell.now.strftime("%H:%M:%S")
    assert told.endswith(f"; the host of task 1 looks for the record at which it stops (since {since} UTC)")
    tell(cell, [behind[0] | {"level_ms": 5_000}, {"level_records": 60}])
    cell.round()
    assert cell.sync()["detail"].endswith("; task 1 reads 60 records for that")
    tell(cell, [{"quiesced": True, "watermark_ms": 5_000, "level_ms": 5_000}] * 2)
    cell.round()
    stopped = cell.running()
    assert (stopped["stopping"], stopped["level_ms"], cell.step()) == (True, None, "await_stopped")
    cell.rounds(4)
    assert (cell.running()["generation"], cell.sync()["state"]) == (2, "synced")
    assert "level" in cell.running()["rescale_seconds"]


def test_a_job_is_not_stopped_while_a_task_of_it_is_lost_and_a_leader_carries_on(cell: Cell) -> None:
    """1. A task was lost before: it is waited for, and the other takes rows. 2. It runs, and both are to take no more
    rows. 3. It is lost. The other is quiet, also for another leader, and the job is not stopped. 4. It starts again and
    has yet to answer. 5. It answers: the stop is committed."""
    quiet = {"quiesced": True, "level_ms": 0, "watermark_ms": 5_000}
    cell.is_quiet_at_once = False
    cell.rescaling()
    tell(cell, [{}, None])
    cell.round()
    cell.round()
    assert (cell.running()["quiescing_commit"], cell.step()) == (None, "copy_state")
    nobody = "no container reports task 1, and no container has its shard"
    assert cell.sync()["detail"] == f"copy_state: {nobody}"
    tell(cell, [{}, {}])
    cell.round()
    order = cell.running()
    assert (order["quiescing_commit"], cell.step()) == (order["commit_number"], "quiesce")
    tell(cell, [quiet, None])
    for _ in range(2):
        cell.round()
        assert cell.running() == order
        assert cell.sync()["detail"] == f"quiesce: {nobody}"
        cell.restart()
    tell(cell, [quiet, {}])
    cell.round()
    assert cell.running() == order
    assert cell.sync()["detail"] == "quiesce: 1 task has not finished its batch"
    tell(cell, [quiet, quiet])
    cell.round()
    assert (cell.running()["stopping"], cell.step()) == (True, "await_stopped")


def test_tasks_take_rows_again_when_a_lost_one_is_not_back_in_15_s(cell: Cell) -> None:
    """1. A task is lost while the job quiesces: that is recorded. 2. Another leader knows since when. After 15 s the
    order is lifted, and the plan begins anew: it says so, and a third leader carries it on. 3. It waits until all tasks
    run; the state is copied again, into another generation. 4. The tasks are to take no more rows, and it ends well."""
    quiet = {"quiesced": True, "level_ms": 0, "watermark_ms": 5_000}
    cell.is_quiet_at_once = cell.copies_at_once = False
    cell.rescaling()
    cell.rounds(3)
    assert cell.step() == "quiesce"
    order, generation = cell.running(), cell.sync()["plan"]["generation"]
    tell(cell, [quiet, None])
    cell.round()
    lost_at = cell.sync()["plan"]["lost_at"]
    cell.now += timedelta(seconds=14)
    cell.restart()
    cell.round()
    assert (cell.running(), cell.sync()["plan"]["lost_at"]) == (order, lost_at)
    cell.now += timedelta(seconds=1)
    cell.round()
    released = cell.running()
    assert released["quiescing_commit"] != released["commit_number"] == order["commit_number"] + 1
    assert (released["stopping"], released["generation"], released["config"]) == (False, 1, order["config"])
    tell(cell, [{}, None])
    for _ in range(2):
        cell.restart()
        cell.round()
        nobody = "no container reports task 1, and no container has its shard"
        was = f"The rescale was taken back once since tasks were lost ({nobody})"
        assert cell.sync()["detail"] == f"copy_state: {nobody}. {was}; it begins anew once all tasks run"
    tell(cell, [{}, {}])
    cell.round()
    assert (cell.step(), cell.sync()["plan"]["generation"]) == ("copy_state", generation + 1)
    cell.round()
    assert (cell.step(), cell.running()["quiescing_commit"]) == ("quiesce", cell.running()["commit_number"])
    tell(cell, [quiet, quiet])
    cell.rounds(5)
    assert (cell.running()["generation"], cell.sync()["state"], cell.sync()["failures"]) == (
        generation + 1,
        "synced",
        0,
    )
    assert cell.running()["rescale_seconds"]["taken_back"] == 15.0


def tell(cell: Cell, progress: list[dict[str, object] | None]) -> None:
    """Every container has applied all commits; the first one says this of its tasks of job j. None: it has none."""
    cell.applied()
    for index, told in enumerate(progress):
        if told is None:
            cell.do("DELETE FROM tasks WHERE index = :index", index=index)
            continue
        cell.do(
            """
            INSERT INTO tasks (job, index, container, state, revision, generation, restarts, epoch, progress)
            VALUES ('j', :index, :name, 'running', 1, 1, 0, 1, CAST(:told AS jsonb))
            ON CONFLICT (job, index, container) DO UPDATE SET progress = excluded.progress
            """,
            index=index,
            name=cell.names[0],
            told=json.dumps(told),
        )
