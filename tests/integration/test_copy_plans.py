"""Copies of state before a rescale, by a State Syncer on a real Postgres. Containers are the test's own."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from penstock.tasks.redistribution import CopyRequest
from services.state_syncer.decide.progress import Step
from tests.support.state_syncer.cell import Cell
from tests.support.state_syncer.containers import everything_works, fails_at, waits_at
from tests.support.store.jobs import make_layer, write_layer


@pytest.fixture
def cell(engine: Engine) -> Cell:
    return Cell(engine, ("a", "b"))


def test_state_is_copied_while_the_tasks_run_and_the_redistribution_goes_on_with_it(cell: Cell) -> None:
    """1. A container copies; nothing is committed. 2. Another leader asks the same one. 3. It is done: tasks take no
    more rows. 4. The same container redistributes into the same generation."""
    cell.copies_at_once = False
    cell.containers.works = waits_at(Step.COPY)
    cell.rescaling()
    before = cell.running()["commit_number"]
    cell.rounds(2)
    cell.restart()
    cell.rounds(2)
    (copy,) = cell.containers.copies
    assert isinstance(copy.request, CopyRequest)
    assert (cell.step(), copy.key.number, cell.running()["commit_number"]) == ("copy_state", 2, before)
    assert (
        cell.sync()["detail"] == f"copy_state: {copy.key.container} copies the state into generation 2; all tasks run"
    )
    cell.containers.works = everything_works
    cell.restart()
    cell.rounds(6)
    asked = {(ask.key.container, ask.key.number) for ask in cell.containers.asked}
    assert asked == {(copy.key.container, 2)}
    assert (cell.running()["generation"], cell.sync()["state"]) == (2, "synced")


def test_a_copy_that_fails_costs_its_number_and_nothing_else(cell: Cell) -> None:
    """Its generation is noted as one that was never committed: it does not take the place of the one before."""
    cell.containers.works = fails_at(Step.COPY)
    cell.rescaling()
    cell.rounds(4)
    assert cell.containers.generations() == [3]
    assert (cell.running()["generation"], cell.sync()["state"], cell.sync()["failures"]) == (3, "synced", 0)
    noted = cell.rows("SELECT generation, attempted FROM generations WHERE unused_since IS NOT NULL ORDER BY 1")
    assert [(row["generation"], row["attempted"]) for row in noted] == [(1, False), (2, True)]


def test_a_job_whose_tasks_report_that_they_keep_no_state_has_none_copied(cell: Cell) -> None:
    write_layer(cell.engine, "j", make_layer())
    cell.rounds(1)
    for index in range(2):
        cell.do(
            """
            INSERT INTO task_metrics (job, index, minute, batch_seconds, state_rows, state_memory_bytes)
            VALUES ('j', :index, now(), 0.1, 0, 0)
            """,
            index=index,
        )
    write_layer(cell.engine, "j", make_layer(task_count=4))
    cell.rounds(6)
    assert (cell.containers.copies, cell.containers.generations()) == ([], [2])
