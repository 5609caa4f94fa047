"""The State Syncer on a real Postgres: stories of changes, leaders, crashes and deletions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, text

from penstock.control.errors import Fenced, Unavailable
from penstock.model.jobs import JobState
from penstock.store.engine import connect, listen, transaction
from penstock.store.running import CommitRow, commit_many
from penstock.tasks.rollout import LeafChange, Rejected
from services.state_syncer.decide.effects import PlanWrite
from services.state_syncer.decide.view import SyncRecord
from services.state_syncer.round.loop import StateSyncer
from services.state_syncer.store.plans import write_plans
from services.state_syncer.store.port import SyncStore
from services.state_syncer.store.rollouts import alert_of_plans
from services.state_syncer.store.states import SyncWrite, alert_of_quarantines, write_sync_states
from tests.support.state_syncer.cell import Cell, Interfering, Killed, depose, die, elect
from tests.support.state_syncer.containers import NobodyToAsk
from tests.support.store.jobs import delete_job, make_config, make_layer, release_job, restart_job, write_layer


@pytest.fixture(params=[False, True], ids=["simple at once", "one by one"])
def cell(request: pytest.FixtureRequest, engine: Engine) -> Cell:
    cell = Cell(engine, one_by_one=request.param)
    cell.round()  # Notes the ranks: until they are known, every job is merged anew, one by one.
    return cell


def test_a_new_job_is_committed_as_it_is_expected(cell: Cell) -> None:
    revision = write_layer(cell.engine, "j", make_layer())
    write_layer(cell.engine, "j", {"priority": 3}, layer="oncall")
    cell.round()
    running = cell.running()
    assert running["config"] == make_config(priority=3)
    assert (running["revision"], running["generation"], running["restarts"]) == (revision + 1, 1, 0)
    assert (running["stopping"], running["started"], running["leader_epoch"]) == (False, True, cell.epoch)
    assert (cell.sync()["state"], cell.sync()["revision"]) == ("synced", revision + 1)


def test_the_simple_changes_of_a_round_share_one_commit_number(cell: Cell) -> None:
    for number in range(5):
        write_layer(cell.engine, f"j{number}", make_layer())
    cell.round()
    write_layer(cell.engine, "j1", make_layer(priority=1))
    write_layer(cell.engine, "j2", make_layer(trigger_interval_seconds=3))
    restart_job(cell.engine, "j3")
    cell.round()
    numbers = {row["job"]: row["commit_number"] for row in cell.rows("SELECT job, commit_number FROM running")}
    restarted = numbers.pop("j3")
    assert numbers == {"j0": 1, "j1": 2, "j2": 2, "j4": 1}
    assert (cell.running("j3")["restarts"], restarted >= 2) == (1, True)
    fields = ["trigger_interval_seconds"] if cell.one_by_one else None
    assert (cell.sync("j2")["change_kind"], cell.sync("j2")["changed_fields"]) == ("restart", fields)


def test_an_unchanged_round_writes_nothing(cell: Cell) -> None:
    write_layer(cell.engine, "j", make_layer())
    cell.round()
    before = (cell.rows("SELECT xmin::text, * FROM running"), cell.rows("SELECT xmin::text, * FROM sync_state"))
    cell.round()
    assert (cell.rows("SELECT xmin::text, * FROM running"), cell.rows("SELECT xmin::text, * FROM sync_state")) == before
    assert cell.rows("SELECT value FROM counters WHERE name = 'running_commit'")[0]["value"] == 1


@pytest.mark.parametrize("spoil", ["DELETE FROM running", "UPDATE running SET stopping = true"])
@pytest.mark.parametrize("new_leader", [False, True])
def test_a_running_row_that_somebody_changed_comes_back(cell: Cell, spoil: str, *, new_leader: bool) -> None:
    """1. A running row is deleted or stopped by hand. 2. After five minutes, or with the next leader, it is back."""
    write_layer(cell.engine, "j", make_layer())
    cell.round()
    before = cell.running()
    cell.do(spoil)
    cell.round()
    assert cell.running() is None or cell.running()["stopping"] is True, "an unchanged round reads no running rows"
    if new_leader:
        depose(cell.engine)
        cell.epoch = elect(cell.engine, "second")
    else:
        cell.now += timedelta(minutes=5)
    cell.round()
    names = ("config", "revision", "generation", "restarts", "stopping", "started")
    assert {name: cell.running()[name] for name in names} == {name: before[name] for name in names}
    assert cell.sync()["state"] == "synced"


def test_a_commit_notifies_with_its_number(cell: Cell, database_url: str) -> None:
    write_layer(cell.engine, "j", make_layer())
    with listen(database_url, ("penstock_running",)) as connection:
        cell.round()
        payloads = [notice.payload for notice in connection.notifies(timeout=5, stop_after=1)]
    assert payloads == ["1"]


def test_a_job_that_never_started_may_be_rescaled(cell: Cell) -> None:
    write_layer(cell.engine, "j", make_layer(desired_state="stopped"))
    cell.round()
    assert cell.running()["started"] is False
    write_layer(cell.engine, "j", make_layer(desired_state="stopped", task_count=4))
    cell.round()
    assert cell.running()["config"]["task_count"] == 4
    write_layer(cell.engine, "j", make_layer(task_count=8))
    cell.round()
    assert (cell.running()["config"]["task_count"], cell.running()["started"]) == (8, True)
    write_layer(cell.engine, "j", make_layer(desired_state="stopped", task_count=8))
    cell.round()
    assert cell.running()["started"] is True, "it may have left a checkpoint"
    write_layer(cell.engine, "j", make_layer(desired_state="stopped", task_count=2))
    cell.round()
    assert cell.sync()["state"] == "rescaling"


def test_a_change_of_ranks_that_breaks_a_job_fails_it_and_touches_nothing(cell: Cell) -> None:
    """1. oncall repairs what scaler breaks. 2. The ranks are swapped. 3. The job fails, runs on, and is quarantined
    with an alert after five attempts. 4. The ranks go back: a release lets it out and the alert is cleared."""
    write_layer(cell.engine, "j", make_layer())
    write_layer(cell.engine, "other", make_layer())
    write_layer(cell.engine, "j", {"task_count": 99}, layer="scaler")
    write_layer(cell.engine, "j", {"task_count": 2}, layer="oncall")
    cell.round()
    before = cell.running()
    cell.do("UPDATE layers SET rank = 400 WHERE name = 'scaler'")
    cell.round()
    assert cell.running() == before
    assert (cell.sync()["state"], cell.sync()["failures"]) == ("failed", 1)
    assert "task_count" in cell.sync()["changed_fields"]
    assert cell.sync("other")["state"] == "synced"
    for _ in range(6):
        cell.now += timedelta(hours=2)
        cell.round()
    assert (cell.sync()["state"], cell.sync()["failures"]) == ("quarantined", 5)
    alert = cell.rows("SELECT * FROM alerts")[0]
    assert (alert["kind"], alert["subject"], alert["times"], alert["cleared_at"]) == ("quarantined", "j", 1, None)
    cell.do("UPDATE layers SET rank = 200 WHERE name = 'scaler'")
    cell.round()
    assert cell.sync()["state"] == "quarantined"
    release_job(cell.engine, "j")
    cell.round()
    assert cell.sync()["state"] == "synced"
    assert cell.rows("SELECT cleared_at FROM alerts")[0]["cleared_at"] is not None


def test_a_forbidden_change_fails_until_it_is_taken_back(cell: Cell) -> None:
    write_layer(cell.engine, "j", make_layer())
    cell.round()
    write_layer(cell.engine, "j", make_layer(state_backend="rocksdb"))
    cell.round()
    state = cell.sync()
    assert (state["state"], state["change_kind"], state["changed_fields"]) == ("failed", "forbidden", ["state_backend"])
    assert "penstock jobs apply NEW FILE" in state["detail"]
    assert cell.running()["config"] == make_config()
    write_layer(cell.engine, "j", make_layer())
    cell.round()
    assert (cell.sync()["state"], cell.sync()["failures"]) == ("synced", 0)


def test_one_broken_job_does_not_hold_up_the_others(cell: Cell) -> None:
    write_layer(cell.engine, "broken", {"no_such_field": 1})
    write_layer(cell.engine, "j", make_layer())
    cell.round()
    assert cell.running("broken") is None
    assert cell.sync("broken")["state"] == "failed"
    assert cell.running()["revision"] == 2


def test_a_detail_that_is_no_text_for_the_store_holds_up_no_other_job(engine: Engine) -> None:
    """States, plans and alerts of all jobs of a round go into one statement each."""
    leaf = LeafChange(path=("package", "version"), old="1", new="2")
    error = "12\x00x"
    rejected = Rejected.model_construct(
        revision=1, leaves=(leaf,), wave=1, waves=1, task=None, error=error, goes_back=False
    )
    for job in ("j", "k"):
        write_layer(engine, job, make_layer())
    records = {
        "j": SyncRecord(JobState.QUARANTINED, 1, "12\x00\ud800x", failures=5),
        "k": SyncRecord(JobState.SYNCED, 1),
    }
    writes = [SyncWrite(job, record, None) for job, record in records.items()]
    with transaction(engine) as connection:
        write_sync_states(connection, writes)
        alert_of_quarantines(connection, writes)
        write_plans(connection, [PlanWrite("j", None, rejected=rejected)])
        alert_of_plans(connection, [PlanWrite("j", None, rejected=rejected)])
        states = connection.execute(text("SELECT job, detail, rejected->>'error' FROM sync_state ORDER BY job")).all()
        messages = set(connection.execute(text("SELECT message FROM alerts")).scalars())
    assert states == [("j", "12\ufffd\ufffdx", "12\ufffdx"), ("k", "", None)]
    assert messages == {
        "the job is quarantined: 12\ufffd\ufffdx",
        "the rollout is halted, with no package that has worked in this job to go back to: package.version 2: wave 1 of"
        " 1: j: 12\ufffdx",
    }


def test_deletion_waits_for_every_container_then_forgets(cell: Cell) -> None:
    """1. A job runs on one of three containers. 2. Deleted: a stop is committed. 3. Only when all live containers
    have reported after it, and the one that ran the job was lost, is the job forgotten. 4. Its name lives again."""
    write_layer(cell.engine, "j", make_layer())
    write_layer(cell.engine, "other", make_layer())
    cell.round()
    for name in ("a", "b", "c"):
        cell.container(name)
        cell.report(name, 1, *(("j", "other") if name == "a" else ()))
    revision = delete_job(cell.engine, "j")
    cell.round()
    stop = cell.running()
    assert (stop["stopping"], stop["config"]["desired_state"], stop["revision"]) == (True, "stopped", revision)
    assert cell.sync()["state"] == "deleting"
    assert cell.looks_soon
    for commit, waits_for in ((1, "still run"), (1, "still run")):
        cell.report("b", stop["commit_number"])
        cell.report("a", commit, "j", "other")
        cell.round()
        assert waits_for in cell.sync()["detail"]
    cell.container("a", "lost")
    cell.round()
    assert "has not reported since" in cell.sync()["detail"], "c has not reported since the stop"
    cell.report("c", stop["commit_number"])
    cell.round()
    assert cell.running() is None
    assert cell.sync() is None
    assert cell.rows("SELECT name FROM jobs") == [{"name": "other"}]
    assert cell.rows("SELECT DISTINCT job FROM expected_layers") == [{"job": "other"}]
    assert cell.rows("SELECT DISTINCT job FROM tasks") == [{"job": "other"}]
    forgotten = cell.rows("SELECT job, commit_number, generation FROM forgotten")
    assert forgotten == [{"job": "j", "commit_number": stop["commit_number"] + 1, "generation": 1}]
    noted = cell.rows("SELECT action, author, revision FROM history WHERE job = 'j'")
    assert noted == [{"action": "forget", "author": "state_syncer", "revision": revision}]
    write_layer(cell.engine, "j", make_layer())
    cell.round()
    assert cell.running()["generation"] == 2, "generations are never used twice"
    assert cell.rows("SELECT * FROM forgotten") == []


def test_a_job_that_never_ran_is_forgotten_at_once(cell: Cell) -> None:
    cell.container("silent")
    write_layer(cell.engine, "j", make_layer())
    delete_job(cell.engine, "j")
    cell.round()
    assert cell.rows("SELECT * FROM jobs") == []
    assert cell.rows("SELECT * FROM forgotten") == []


def test_a_job_whose_deletion_was_taken_back_meanwhile_is_not_forgotten(cell: Cell) -> None:
    """1. A round decides to forget. 2. The deletion is taken back before it writes. 3. The job stays and starts."""
    write_layer(cell.engine, "j", make_layer())
    cell.round()
    delete_job(cell.engine, "j")
    cell.round()
    cell.syncer = cell.make_syncer(
        Interfering(cell.engine, lambda: cell.do("UPDATE jobs SET deleting = false, revision = revision + 1"))
    )
    cell.round()
    assert cell.running()["stopping"] is True
    cell.round()
    assert (cell.running()["stopping"], cell.running()["config"]["desired_state"]) == (False, "running")


def interfering(cell: Cell, interfere: Any, *, after_write: bool = False) -> Interfering:
    """A store that is interfered with where a new job is committed."""
    return Interfering(cell.engine, interfere, after_write=after_write, simple=not cell.one_by_one)


@pytest.mark.parametrize("after_write", [False, True])
def test_a_syncer_that_dies_around_its_commit_is_carried_on_by_the_next(cell: Cell, *, after_write: bool) -> None:
    write_layer(cell.engine, "old", make_layer())
    cell.round()
    write_layer(cell.engine, "new", make_layer())
    write_layer(cell.engine, "old", make_layer(priority=9))
    cell.syncer = cell.make_syncer(interfering(cell, die, after_write=after_write))
    with pytest.raises(Killed):
        cell.round()
    depose(cell.engine)
    cell.epoch = elect(cell.engine, "second")
    cell.syncer = cell.make_syncer(SyncStore(cell.engine))
    cell.round()
    cell.round()
    assert cell.running("old")["config"]["priority"] == 9
    assert cell.running("new")["generation"] == 1
    assert {row["state"] for row in cell.rows("SELECT state FROM sync_state")} == {"synced"}
    assert cell.rows("SELECT max(commit_number) AS number FROM running")[0]["number"] == 2, "no commit was made twice"


def test_a_paused_leader_is_fenced(cell: Cell) -> None:
    """1. A leader reads and decides. 2. It is paused; its lease ends; another leads and commits a newer revision.
    3. The first goes on: its write is refused whole."""
    write_layer(cell.engine, "j", make_layer(priority=1))
    successor = cell.make_syncer(SyncStore(cell.engine))

    def take_over() -> None:
        write_layer(cell.engine, "j", make_layer(priority=2))
        depose(cell.engine)
        successor.round(elect(cell.engine, "second"))

    cell.syncer = cell.make_syncer(interfering(cell, take_over))
    with pytest.raises(Fenced):
        cell.round()
    assert cell.running()["config"]["priority"] == 2
    assert cell.running()["leader_epoch"] > cell.epoch
    assert cell.rows("SELECT value FROM counters WHERE name = 'running_commit'")[0]["value"] == 1


def test_a_release_during_a_round_is_not_overwritten(cell: Cell) -> None:
    write_layer(cell.engine, "j", {"no_such_field": 1})
    cell.round()
    cell.now += timedelta(hours=1)
    cell.syncer = cell.make_syncer(Interfering(cell.engine, lambda: release_job(cell.engine, "j")))
    cell.round()
    assert (cell.sync()["state"], cell.sync()["failures"]) == ("pending", 0)


def test_an_older_revision_never_replaces_a_newer(cell: Cell) -> None:
    row = CommitRow("j", b'{"desired_state": "running"}', 5, 1, 0, False, True)
    with transaction(cell.engine) as connection:
        assert commit_many(connection, [row], cell.epoch) == 1
        assert commit_many(connection, [row._replace(revision=4)], cell.epoch) == 2
        assert commit_many(connection, [], cell.epoch) is None
    assert (cell.running()["revision"], cell.running()["commit_number"]) == (5, 1)


def test_a_store_that_cannot_be_reached_is_unavailable() -> None:
    engine = connect("postgresql://127.0.0.1:1/nowhere")
    syncer = StateSyncer(SyncStore(engine), lambda: datetime.now(UTC), NobodyToAsk())
    with pytest.raises(Unavailable):
        syncer.round(1)
