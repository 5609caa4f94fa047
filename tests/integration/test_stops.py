"""A job that is to stop stops at once, whatever else was written and whoever waits for room, on a real Postgres."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine

from services.state_syncer.decide.budget import Budget
from services.state_syncer.decide.progress import Step
from tests.support.state_syncer.cell import Cell
from tests.support.state_syncer.containers import everything_works, fails_at, waits_at
from tests.support.store.jobs import make_layer, write_layer

NAMES = ("j1", "j2", "j3")


@pytest.fixture
def cell(engine: Engine) -> Cell:
    """Three jobs, of which one may be disrupted, and it is: a container works at its rescale."""
    cell = Cell(engine, ("a", "b"))
    for name in NAMES:
        write_layer(cell.engine, name, make_layer())
    one_at_once(cell, rescales=20)
    cell.rounds(1)
    cell.containers.works = waits_at(Step.REDISTRIBUTE)
    write_layer(cell.engine, "j1", make_layer(task_count=4))
    cell.rounds(2)
    assert cell.step("j1") == "redistribute"
    return cell


def one_at_once(cell: Cell, rescales: int) -> None:
    cell.budget = Budget(share=0.1, rescales=rescales)
    cell.restart()


def ran(cell: Cell, name: str) -> tuple[str, int, int]:
    running = cell.running(name)
    return running["config"]["desired_state"], running["config"]["task_count"], running["generation"]


@pytest.mark.parametrize("waited_before", [False, True])
def test_a_rescale_without_room_does_not_keep_a_job_from_its_stop(cell: Cell, waited_before: bool) -> None:
    """1. The job stops with the size that it has. 2. Its rescale disrupts nobody, so it needs no room."""
    if waited_before:
        write_layer(cell.engine, "j2", make_layer(task_count=4))
        cell.rounds(2)
        assert cell.sync("j2")["detail"] == "copy_state: waiting: no more than 1 job may be disrupted at once"
    write_layer(cell.engine, "j2", make_layer(task_count=4, desired_state="stopped"))
    cell.rounds(4)
    assert ran(cell, "j2") == ("stopped", 2, 1)
    assert (cell.step("j1"), cell.step("j2")) == ("redistribute", "redistribute")
    cell.containers.works = everything_works
    cell.restart()
    cell.rounds(4)
    assert ran(cell, "j2") == ("stopped", 4, cell.running("j2")["newest_generation"])
    assert cell.sync("j2")["state"] == "synced"


def test_a_job_that_is_started_again_runs_with_the_size_that_it_had(cell: Cell) -> None:
    """1. There is no place for another rescale: the job stops, and its rescale waits. 2. It is to run again: it runs
    as before, and still waits. 3. There is a place."""
    one_at_once(cell, rescales=1)
    write_layer(cell.engine, "j2", make_layer(task_count=4, desired_state="stopped"))
    cell.rounds(3)
    assert (ran(cell, "j2"), cell.sync("j2")["state"]) == (("stopped", 2, 1), "queued")
    assert cell.sync("j2")["detail"] == "waiting: no more than 1 job may be rescaled at once"
    cell.budget = Budget(share=0.1, rescales=1, copies=0)
    cell.restart()
    write_layer(cell.engine, "j2", make_layer(task_count=4))
    cell.rounds(2)
    assert (ran(cell, "j2"), cell.sync("j2")["state"]) == (("running", 2, 1), "queued")
    cell.containers.works = everything_works
    one_at_once(cell, rescales=1)
    cell.rounds(12)
    assert ran(cell, "j2") == ("running", 4, cell.running("j2")["newest_generation"])
    assert {cell.sync(name)["state"] for name in NAMES} == {"synced"}


def test_a_job_whose_rescale_fails_is_started_again_with_the_size_that_it_had(cell: Cell) -> None:
    """1. It fails while the job is stopped. 2. The job is to run again, with the write that failed."""
    cell.containers.works = fails_at(Step.REDISTRIBUTE)
    write_layer(cell.engine, "j2", make_layer(task_count=4, desired_state="stopped"))
    cell.rounds(5)
    assert (ran(cell, "j2"), cell.sync("j2")["state"]) == (("stopped", 2, 1), "failed")
    write_layer(cell.engine, "j2", make_layer(task_count=4))
    cell.rounds(4)
    assert (ran(cell, "j2"), cell.sync("j2")["state"]) == (("running", 2, 1), "failed")


def test_a_stop_during_a_rescale_that_fails_starts_no_task(cell: Cell) -> None:
    """1. The old tasks have stopped for the rescale. 2. The job is to stop. 3. The rescale fails."""
    write_layer(cell.engine, "j1", make_layer(task_count=4, desired_state="stopped"))
    cell.containers.works = fails_at(Step.REDISTRIBUTE)
    cell.restart()
    states = []
    for _ in range(4):
        cell.rounds(1)
        row = cell.running("j1")
        states.append(row["stopping"] or row["config"]["desired_state"] == "stopped")
    assert all(states)
    assert (ran(cell, "j1"), cell.sync("j1")["state"]) == (("stopped", 2, 1), "failed")


@pytest.mark.parametrize("refused_before", [False, True])
def test_a_write_that_is_refused_does_not_keep_a_job_from_its_stop(cell: Cell, refused_before: bool) -> None:
    forbidden: dict[str, Any] = {"state_backend": "rocksdb"}
    if refused_before:
        write_layer(cell.engine, "j2", make_layer(**forbidden))
        cell.rounds(1)
        assert (cell.sync("j2")["state"], ran(cell, "j2")) == ("failed", ("running", 2, 1))
    write_layer(cell.engine, "j2", make_layer(**forbidden, desired_state="stopped"))
    cell.rounds(2)
    assert ran(cell, "j2") == ("stopped", 2, 1)
    assert cell.running("j2")["config"]["state_backend"] != "rocksdb"
    assert (cell.sync("j2")["state"], cell.sync("j2")["changed_fields"]) == ("failed", ["state_backend"])
