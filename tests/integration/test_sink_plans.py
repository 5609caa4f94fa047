"""Outputs are made before the commit that has tasks write to them: stories of the State Syncer on a real Postgres."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from penstock.store.engine import connect
from penstock.tasks.sinks import SinkRequest
from services.state_syncer.asks import AskKey
from services.state_syncer.plan import QUARANTINE_AFTER_FAILURES
from services.state_syncer.progress import Done, Failed, Lost, Outcome, Unanswered
from tests.support.jobs import make_config, make_layer, release_job, restart_job, write_layer
from tests.support.rescales import RescaleCell
from tests.support.syncer_cell import Interfering, depose, elect

SIZED = {"key_groups": 4}


@pytest.fixture
def cell(database_url: str) -> Iterator[RescaleCell]:
    engine = connect(database_url)
    yield RescaleCell(engine, elect(engine, "first"))
    engine.dispose()


def fails(_: AskKey) -> Outcome:
    return Failed("the topic out has 2 partitions, not 4")


def write(cell: RescaleCell, **config: Any) -> int:
    return write_layer(cell.engine, "j", make_layer(**config))


@pytest.mark.parametrize("set_based_from", [0, 1000])
def test_a_first_commit_comes_once_the_output_is_there(cell: RescaleCell, set_based_from: int) -> None:
    """1. A job is made: a container is asked, nothing runs. 2. It works on. 3. It is done: the commit."""
    cell.set_based_from = set_based_from
    cell.restart()
    cell.round()  # Notes the ranks.
    cell.containers.works = lambda _: Unanswered()
    revision = write(cell, output=SIZED)
    cell.rounds(2)
    state = cell.sync()
    assert (cell.running(), state["state"], state["plan"]) == (None, "waiting", None)
    (ask,) = cell.containers.asked
    assert state["detail"] == f"initialize_sink: {ask.key.container} makes the output"
    assert isinstance(ask.request, SinkRequest)
    assert (ask.request.revision, ask.request.config.model_dump(mode="json")) == (revision, make_config(output=SIZED))
    assert cell.wanted_wake_ups[-1] == 1.0
    cell.containers.works = lambda _: Done()
    cell.restart()
    cell.rounds(2)
    assert (cell.running()["revision"], cell.sync()["state"], cell.sync()["detail"]) == (revision, "synced", "")
    assert len(cell.containers.asked) == 1, "the next syncer asked the same container the same"


@pytest.mark.parametrize("after_write", [False, True])
@pytest.mark.parametrize("round_", range(2))
def test_a_syncer_that_dies_in_any_round_is_carried_on(cell: RescaleCell, round_: int, *, after_write: bool) -> None:
    write(cell, output=SIZED)
    cell.rounds(round_)

    def die() -> None:
        raise KeyboardInterrupt

    executor = cell.executor
    cell.restart(Interfering(cell.engine, die, after_write=after_write))
    cell.syncer._executor = executor
    with pytest.raises(KeyboardInterrupt):
        cell.rounds(2)
    depose(cell.engine)
    cell.epoch = elect(cell.engine, "second")
    cell.restart()
    cell.rounds(3)
    assert (cell.running()["config"], cell.sync()["state"]) == (make_config(output=SIZED), "synced")
    assert len(cell.containers.asked) == 1


def test_a_failing_output_is_told_tried_on_another_container_and_quarantined(cell: RescaleCell) -> None:
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


def test_a_new_write_begins_anew_after_a_quarantine(cell: RescaleCell) -> None:
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


def test_a_lost_container_is_a_failure_and_one_that_is_gone_is_replaced(cell: RescaleCell) -> None:
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


def test_without_a_container_a_job_waits(cell: RescaleCell) -> None:
    for name in ("a", "b"):
        cell.container(name, "lost")
    write(cell, output=SIZED)
    cell.round()
    assert (cell.sync()["state"], cell.sync()["detail"]) == ("waiting", "initialize_sink: no container can be asked")
    cell.container("a")
    cell.round()
    cell.round()
    assert cell.sync()["state"] == "synced"


@pytest.mark.parametrize("set_based_from", [0, 1000])
def test_a_job_runs_on_while_another_output_is_made_or_fails(cell: RescaleCell, set_based_from: int) -> None:
    """1. A job runs and shall write elsewhere: that fails, and it runs on. 2. A restart is not put off by it.
    3. The next write has an output that works."""
    cell.set_based_from = set_based_from
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


def test_what_is_written_while_an_output_is_made_replaces_it(cell: RescaleCell) -> None:
    cell.containers.works = lambda _: Unanswered()
    write(cell, output=SIZED)
    cell.round()
    cell.containers.works = lambda _: Done()
    revision = write(cell, output={"topic": "free"})
    cell.round()
    assert (cell.running()["revision"], cell.sync()["state"]) == (revision, "synced")
