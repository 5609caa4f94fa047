"""Copies of state before a rescale, by a State Syncer on a real Postgres. Containers are the test's own."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import Engine

from penstock.tasks.redistribution import CopyReport, CopyRequest
from services.state_syncer.decide.progress import Step
from tests.support.state_syncer.cell import Cell
from tests.support.state_syncer.containers import everything_works, fails_at, reports_at, waits_at
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


def test_a_job_that_could_not_be_sealed_runs_on(cell: Cell) -> None:
    """1. The container that is to copy finds that the old generation could not be sealed. 2. The tasks were never told
    to take no more rows, nor stopped: only their release is committed. 3. Once it can be sealed it is rescaled."""
    cell.containers.works = reports_at(Step.COPY, CopyReport(unsealable="the Kafka eu does not answer"))
    cell.rescaling()
    running = cell.running()
    for _ in range(3):
        cell.round()
        now = cell.running()
        assert (now["stopping"], now["quiescing_commit"], now["level_commit"]) == (False, None, None)
        cell.applied()
    assert (cell.sync()["state"], cell.containers.generations()) == ("failed", [])
    assert "cannot be sealed now: the Kafka eu does not answer; the job was never stopped" in cell.sync()["detail"]
    assert (cell.running()["generation"], cell.running()["config"]) == (running["generation"], running["config"])
    cell.containers.works = everything_works
    cell.now += timedelta(seconds=31)
    cell.rounds(6)
    assert (cell.running()["config"]["task_count"], cell.sync()["state"]) == (4, "synced")


@pytest.mark.parametrize(("delivery", "copies"), [("at_least_once", 0), ("exactly_once", 1)])
def test_a_job_without_state_is_only_asked_whether_it_can_be_sealed(cell: Cell, delivery: str, copies: int) -> None:
    """Where the seal needs Kafka."""
    output = {"type": "kafka", "topic": "out", "delivery": delivery}
    write_layer(cell.engine, "j", make_layer(output=output))
    cell.rounds(1)
    for index in range(2):
        cell.do(
            """
            INSERT INTO task_metrics (job, index, minute, batch_seconds, state_rows, state_memory_bytes)
            VALUES ('j', :index, now(), 0.1, 0, 0)
            """,
            index=index,
        )
    write_layer(cell.engine, "j", make_layer(task_count=4, output=output))
    cell.rounds(6)
    assert (len(cell.containers.copies), cell.containers.generations()) == (copies, [2])
