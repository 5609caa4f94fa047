"""Outputs are made before the commit that has tasks write to them: stories of the State Syncer on a real Postgres."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from sqlalchemy import Engine

from penstock.store.health import read_named
from penstock.tasks.sinks import SinkRequest
from services.state_syncer.decide.budget import Budget
from services.state_syncer.decide.effects import QUARANTINE_AFTER_FAILURES
from services.state_syncer.host_tasks.outcomes import AttemptKey, Done, Failed, Lost, Outcome, Unanswered
from tests.support.state_syncer.cell import Cell, Interfering, Killed, depose, die, elect
from tests.support.state_syncer.containers import everything_works
from tests.support.store.jobs import delete_job, make_config, make_layer, release_job, restart_job, write_layer

SIZED = {"key_groups": 4}


@pytest.fixture
def cell(engine: Engine) -> Cell:
    return Cell(engine, ("a", "b"))


def fails(_: AttemptKey) -> Outcome:
    return Failed("the topic out has 2 partitions, not 4")


def write(cell: Cell, **config: Any) -> int:
    return write_layer(cell.engine, "j", make_layer(**config))


def test_a_first_commit_comes_once_the_output_is_there(cell: Cell) -> None:
    """1. A job is made: a container is asked, nothing runs. 2. It works on. 3. It is done: the commit."""
    cell.restart()
    cell.round()  # Notes the ranks.
    cell.containers.works = lambda _: Unanswered()
    revision = write(cell, output=SIZED)
    cell.rounds(2)
    state = cell.sync()
    assert (cell.running(), state["state"], state["plan"]) == (None, "waiting", None)
    (ask,) = cell.containers.asked
    told = "makes the output; a Spark host may have to start there first"
    assert state["detail"] == f"initialize_sink: {ask.key.container} {told}"
    assert isinstance(ask.request, SinkRequest)
    assert (ask.request.revision, ask.request.config.model_dump(mode="json")) == (revision, make_config(output=SIZED))
    assert cell.looks_soon
    cell.containers.works = lambda _: Done()
    cell.restart()
    cell.rounds(2)
    assert (cell.running()["revision"], cell.sync()["state"], cell.sync()["detail"]) == (revision, "synced", "")
    assert len(cell.containers.asked) == 1, "the next syncer asked the same container the same"


@pytest.mark.parametrize("after_write", [False, True])
@pytest.mark.parametrize("round_", range(2))
def test_a_syncer_that_dies_in_any_round_is_carried_on(cell: Cell, round_: int, *, after_write: bool) -> None:
    write(cell, output=SIZED)
    cell.rounds(round_)
    host_tasks = cell.host_tasks
    cell.restart(Interfering(cell.engine, die, after_write=after_write))
    cell.syncer._host_tasks = host_tasks
    with pytest.raises(Killed):
        cell.rounds(2)
    depose(cell.engine)
    cell.epoch = elect(cell.engine, "second")
    cell.restart()
    cell.rounds(3)
    assert (cell.running()["config"], cell.sync()["state"]) == (make_config(output=SIZED), "synced")
    assert len(cell.containers.asked) == 1


def test_a_failing_output_is_told_tried_on_another_container_and_quarantined(cell: Cell) -> None:
    """1. Each attempt fails: the step, the container and the error are told. 2. The fifth is the last: an alert.
    3. Released once the output is right, the job runs."""
    cell.containers.works = fails
    write(cell, output=SIZED)
    for failures in range(1, QUARANTINE_AFTER_FAILURES + 1):
        cell.rounds(2)
        container = cell.containers.asked[-1].key.container
        told = f"step initialize_sink on {container}: the topic out has 2 partitions, not 4"
        assert (cell.sync()["detail"], cell.sync()["failures"]) == (told, failures)
        cell.rounds(1)
        assert len(cell.containers.asked) == failures, "it is left alone for a time"
        cell.now += timedelta(hours=1)
    assert {ask.key.container for ask in cell.containers.asked} == {"a", "b"}
    assert (cell.sync()["state"], cell.running()) == ("quarantined", None)
    (alert,) = cell.rows("SELECT * FROM alerts WHERE cleared_at IS NULL")
    assert told in alert["message"]
    cell.containers.works = lambda _: Done()
    release_job(cell.engine, "j")
    cell.restart()
    cell.containers.asked.clear()
    cell.rounds(2)
    assert (cell.sync()["state"], cell.running()["config"]) == ("synced", make_config(output=SIZED))
    assert cell.rows("SELECT * FROM alerts WHERE cleared_at IS NULL") == []


def test_a_job_whose_first_attempt_failed_is_held_while_the_next_one_waits(cell: Cell) -> None:
    """1. It waits for the first one: it is starting. 2. That fails. 3. The next one waits, round after round: the
    reason stays. 4. A newer write begins anew. 5. It works."""
    cell.containers.works = lambda _: Unanswered()
    write(cell, output=SIZED)
    cell.rounds(2)
    assert health(cell)[0] == "starting"
    cell.containers.works = fails
    cell.restart()
    cell.rounds(2)
    failure = cell.sync()["detail"]
    assert health(cell) == ("held", failure)
    cell.containers.works = lambda _: Unanswered()
    cell.restart()
    cell.now += timedelta(hours=1)
    for _ in range(3):
        cell.round()
        assert (cell.sync()["state"], cell.sync()["failures"]) == ("waiting", 1)
        assert cell.sync()["detail"].endswith(f"start there first; the attempt before this one failed: {failure}")
        assert health(cell) == ("held", f"its first configuration failed once, and is tried again now: {failure}")
    write(cell, output=SIZED, priority=3)
    cell.round()
    assert health(cell)[0] == "starting"
    cell.containers.works = lambda _: Done()
    cell.restart()
    cell.rounds(2)
    assert (cell.sync()["state"], cell.sync()["detail"]) == ("synced", "")


def health(cell: Cell) -> tuple[str, str]:
    """How well the job runs, and why."""
    with cell.engine.connect() as connection:
        (found,) = read_named(connection, ["j"])
    return str(found.verdict.health), found.verdict.reason


def test_a_query_that_nobody_could_check_replaces_none_that_runs_unless_a_host_finds_it_right(cell: Cell) -> None:
    """1. A job of one task runs. 2. A write misspells a column while no host can be asked: no container makes the
    check. 3. A host is there and refuses: the job runs as before, and what Spark says is told. 4. The query is mended:
    it is checked, and runs."""
    write(cell)
    cell.rounds(2)
    before = cell.running()["config"]
    assert steps(cell) == [], "a first start waits for no host"
    cell.containers.works = lambda _: Unanswered()
    write(cell, query={"sql": "SELECT orgin FROM events"})
    cell.rounds(2)
    assert (cell.running()["config"], cell.sync()["state"]) == (before, "waiting")
    cell.containers.works = lambda _: Failed("query.sql: `orgin` cannot be resolved")
    cell.restart()
    cell.rounds(2)
    assert (cell.running()["config"], cell.sync()["state"]) == (before, "failed")
    assert "`orgin` cannot be resolved" in cell.sync()["detail"]
    cell.containers.works = everything_works
    write(cell, query={"sql": "SELECT origin FROM events"})
    cell.restart()
    cell.rounds(2)
    assert (cell.running()["config"]["query"]["sql"], cell.sync()["state"]) == ("SELECT origin FROM events", "synced")


def test_a_new_write_begins_anew_after_a_quarantine(cell: Cell) -> None:
    cell.containers.works = fails
    write(cell, output=SIZED)
    for _ in range(QUARANTINE_AFTER_FAILURES):
        cell.rounds(2)
        cell.now += timedelta(hours=1)
    assert cell.sync()["state"] == "quarantined"
    write(cell, output=SIZED, priority=1)
    cell.rounds(1)
    assert (cell.sync()["state"], cell.sync()["failures"]) == ("waiting", 0)
    assert cell.rows("SELECT * FROM alerts WHERE cleared_at IS NULL") == []
    cell.rounds(1)
    assert (cell.sync()["state"], cell.sync()["failures"]) == ("failed", 1)


def test_a_lost_container_is_a_failure_and_one_that_is_gone_is_replaced(cell: Cell) -> None:
    write(cell, output=SIZED)
    cell.containers.works = lambda _: Unanswered()
    cell.round()
    asked = str(cell.containers.asked[0].key.container)
    cell.container(asked, "lost")
    cell.round()
    other = cell.containers.asked[-1].key.container
    assert other != asked
    cell.containers.works = lambda _: Lost("no answer for 30 s")
    cell.restart()
    cell.rounds(2)
    assert cell.sync()["detail"] == f"step initialize_sink on {other}: no answer for 30 s"


def test_without_a_container_a_job_waits(cell: Cell) -> None:
    for name in ("a", "b"):
        cell.container(name, "lost")
    write(cell, output=SIZED)
    cell.round()
    assert (cell.sync()["state"], cell.sync()["detail"]) == ("waiting", "initialize_sink: no container can be asked")
    cell.container("a")
    cell.round()
    cell.round()
    assert cell.sync()["state"] == "synced"


def test_a_job_runs_on_while_another_output_is_made_or_fails(cell: Cell) -> None:
    """1. A job runs and shall write elsewhere: that fails, and it runs on. 2. A restart is not put off by it.
    3. The next write has an output that works."""
    cell.restart()
    write(cell, output=SIZED)
    cell.rounds(3)
    cell.containers.works = fails
    write(cell, output=SIZED | {"topic": "elsewhere"}, priority=2)
    cell.rounds(2)
    assert (cell.running()["config"], cell.sync()["state"]) == (make_config(output=SIZED), "failed")
    assert cell.sync()["changed_fields"] == ["output.topic", "priority"]
    restart_job(cell.engine, "j")
    cell.rounds(1)
    assert (cell.running()["config"], cell.running()["restarts"]) == (make_config(output=SIZED), 1)
    cell.containers.works = lambda _: Done()
    write(cell, output=SIZED | {"topic": "third"})
    cell.rounds(2)
    assert cell.running()["config"] == make_config(output=SIZED | {"topic": "third"})
    assert (cell.sync()["state"], cell.sync()["failures"]) == ("synced", 0)


ELSEWHERE = {"task_count": 4, "output": SIZED | {"topic": "elsewhere"}}


def steps(cell: Cell) -> list[str]:
    """What containers were asked, in order."""
    return [str(ask.key.kind) for ask in cell.containers.asked]


def runs(cell: Cell) -> None:
    """The job runs with two tasks."""
    write(cell, output=SIZED)
    cell.rounds(3)
    cell.containers.asked.clear()


def test_a_rescale_with_another_output_stops_nothing_until_that_is_made(cell: Cell) -> None:
    """1. A job shall have more tasks and write elsewhere: that cannot be made, and it runs on as before. 2. It can be:
    it is made first, then the job stops and is rescaled."""
    runs(cell)
    before = cell.running()
    cell.containers.works = fails
    write(cell, **ELSEWHERE)
    for failures in range(1, QUARANTINE_AFTER_FAILURES + 1):
        cell.rounds(3)
        assert (cell.sync()["failures"], cell.sync()["plan"], cell.running()) == (failures, None, before)
        cell.now += timedelta(hours=1)
    assert (cell.sync()["state"], set(steps(cell))) == ("quarantined", {"initialize_sink"})
    assert "step initialize_sink on" in cell.sync()["detail"]
    cell.containers.asked.clear()
    cell.containers.works = everything_works
    release_job(cell.engine, "j")
    cell.restart()
    cell.rounds(7)
    assert steps(cell) == ["initialize_sink", "redistribute", "seal"]
    assert (cell.running()["config"], cell.sync()["state"]) == (make_config(**ELSEWHERE), "synced")


@pytest.mark.parametrize(
    ("round_", "after_write"),
    [
        pytest.param(round_, after_write, marks=[] if after_write and round_ % 2 else [pytest.mark.long])
        for round_, after_write in product(range(6), (False, True))
    ],
)
def test_a_rescale_with_another_output_survives_the_death_of_a_syncer_in_any_round(
    cell: Cell, round_: int, *, after_write: bool
) -> None:
    runs(cell)
    write(cell, **ELSEWHERE)
    cell.rounds(round_)
    host_tasks = cell.host_tasks
    cell.restart(Interfering(cell.engine, die, after_write=after_write))
    cell.syncer._host_tasks = host_tasks
    with suppress(Killed):
        cell.rounds(2)
    depose(cell.engine)
    cell.epoch = elect(cell.engine, "second")
    cell.restart()
    cell.rounds(8)
    assert (cell.running()["config"], cell.sync()["state"]) == (make_config(**ELSEWHERE), "synced")
    assert (cell.sync()["plan"], steps(cell)) == (None, ["initialize_sink", "redistribute", "seal"])


def test_an_output_stays_made_while_its_rescale_waits_for_room(cell: Cell) -> None:
    """1. The only rescale that may copy goes on. 2. Another waits, its output made. 3. Its turn comes."""
    cell.budget = Budget(copies=1)
    cell.restart()
    write_layer(cell.engine, "k", make_layer())
    runs(cell)
    cell.containers.works = lambda key: Unanswered() if key.job == "k" else everything_works(key)
    write_layer(cell.engine, "k", make_layer(task_count=4))
    cell.rounds(3)
    write(cell, **ELSEWHERE)
    cell.rounds(3)
    told = [(cell.sync()["state"], cell.sync()["detail"])]
    for _ in range(3):
        cell.rounds(1)
        told.append((cell.sync()["state"], cell.sync()["detail"]))
    assert set(told) == {("queued", "waiting: no more than 1 job may be copied at once")}
    assert [ask.key.kind for ask in cell.containers.asked if ask.key.job == "j"] == ["initialize_sink"]
    cell.containers.works = everything_works
    cell.restart()
    cell.rounds(10)
    assert (cell.running()["config"], cell.sync()["state"]) == (make_config(**ELSEWHERE), "synced")


def test_a_job_that_is_made_again_is_told_from_the_one_before_it(cell: Cell) -> None:
    """1. A job of files runs. 2. It is deleted and made again: its generations go on, and the request says where its
    own begin. 3. So does that of its next folder, which ends a rescale."""
    files = make_layer() | {"output": {"type": "files", "path": "/out"}}
    write_layer(cell.engine, "j", files)
    cell.rounds(3)
    delete_job(cell.engine, "j")
    cell.round()
    for container in ("a", "b"):
        cell.report(container, cell.running()["commit_number"])
    cell.round()
    assert cell.running() is None
    cell.containers.works = everything_works
    write_layer(cell.engine, "j", files)
    cell.rounds(3)
    write_layer(cell.engine, "j", files | {"output": {"type": "files", "path": "/elsewhere"}})
    cell.rounds(8)
    assert (cell.running()["generation"], cell.running()["first_generation"]) == (3, 2)
    assert steps(cell) == ["initialize_sink", "initialize_sink", "initialize_sink", "redistribute", "seal"]
    requests = [ask.request for ask in cell.containers.asked]
    assert [each.first_generation for each in requests if isinstance(each, SinkRequest)] == [1, 2, 2]


@pytest.mark.parametrize("task_count", [2, 4, pytest.param(3, marks=pytest.mark.long)])
def test_another_output_takes_a_rescale_back_until_it_is_made(cell: Cell, task_count: int) -> None:
    """1. A rescale goes on. 2. A write has another output, which cannot be made: the job runs as before. 3. It can
    be."""
    runs(cell)
    before = cell.running()
    cell.containers.works = lambda key: Unanswered() if key.kind == "redistribute" else fails(key)
    write(cell, output=SIZED, task_count=4)
    cell.rounds(3)
    assert cell.step() == "redistribute"
    wanted = ELSEWHERE | {"task_count": task_count}
    write(cell, **wanted)
    cell.rounds(1)
    assert (cell.sync()["state"], cell.sync()["plan"]) == ("waiting", None)
    cell.rounds(2)
    assert (cell.sync()["state"], cell.running()["config"]) == ("failed", before["config"])
    assert (cell.running()["stopping"], cell.running()["generation"]) == (False, before["generation"])
    cell.containers.works = everything_works
    cell.now += timedelta(hours=1)
    cell.restart()
    cell.rounds(8)
    assert (cell.running()["config"], cell.sync()["state"]) == (make_config(**wanted), "synced")


def test_what_is_written_while_an_output_is_made_replaces_it(cell: Cell) -> None:
    cell.containers.works = lambda _: Unanswered()
    write(cell, output=SIZED)
    cell.round()
    cell.containers.works = lambda _: Done()
    revision = write(cell, output={"topic": "free"})
    cell.round()
    assert (cell.running()["revision"], cell.sync()["state"]) == (revision, "synced")


PYTHON = {"query": {"sql": None, "python": "m:f"}, "package": {"name": "p", "version": "1"}}


def test_a_query_that_only_spark_sees_through_is_checked_before_several_tasks_run_it(cell: Cell) -> None:
    """1. One task runs: nothing is asked. 2. A second one is refused by Spark: the job runs on, and says why. 3. With
    another version it is right: checked, then rescaled."""
    cell.restart()
    write(cell, task_count=1, **PYTHON)
    cell.rounds(2)
    before = cell.running()
    assert (cell.sync()["state"], steps(cell)) == ("synced", [])
    why = "task_count: GROUP BY in query.python brings rows with equal (carrier) together"
    cell.containers.works = lambda _: Failed(why)
    write(cell, task_count=2, **PYTHON)
    cell.rounds(3)
    assert (cell.sync()["state"], cell.sync()["plan"], cell.running()) == ("failed", None, before)
    assert why in cell.sync()["detail"]
    assert set(steps(cell)) == {"initialize_sink"}
    cell.containers.asked.clear()
    cell.containers.works = everything_works
    cell.restart()
    write(cell, task_count=2, **PYTHON | {"package": {"name": "p", "version": "2"}})
    cell.rounds(7)
    assert steps(cell) == ["initialize_sink", "redistribute", "seal"]
    assert cell.running()["config"]["task_count"] == 2
