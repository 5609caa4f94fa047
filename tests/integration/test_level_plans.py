"""Rescales whose tasks first read on to one watermark: a story of the State Syncer on a real Postgres."""

from __future__ import annotations

import json

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
    behind = [{"quiesced": True, "level_ms": 0, "watermark_ms": each} for each in (5_000, 4_000)]
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
    tell(cell, [{"quiesced": True, "watermark_ms": 5_000, "level_ms": 5_000}] * 2)
    cell.round()
    stopped = cell.running()
    assert (stopped["stopping"], stopped["level_ms"], cell.step()) == (True, None, "await_stopped")
    cell.rounds(4)
    assert (cell.running()["generation"], cell.sync()["state"]) == (2, "synced")
    assert "level" in cell.running()["rescale_seconds"]


def tell(cell: Cell, progress: list[dict[str, object]]) -> None:
    """Every container has applied all commits; the first one says this of its tasks of job j."""
    cell.applied()
    for index, told in enumerate(progress):
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
