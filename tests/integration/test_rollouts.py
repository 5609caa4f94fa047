"""Rollouts of packages on a real Postgres and a real Job Service: waves, halts, rollbacks, crashes and new leaders.

The container is the test's own; tasks on Spark are in `test_rollout` of the end-to-end tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from penstock.store.engine import transaction
from penstock.wire.job_client import JobClient
from services.job_service.store import jobs
from services.state_syncer.decide.budget import Budget
from services.state_syncer.store.port import SyncStore
from tests.support.job_service.service import RunningJobService, as_new
from tests.support.state_syncer.cell import Interfering, Killed, depose, die, elect
from tests.support.state_syncer.rollouts import Away, Racing, RolloutCell

SYNCER = "syncer"


@pytest.fixture
def cell(standing: RunningJobService) -> Iterator[RolloutCell]:
    """Job j runs version 1 of its package as three tasks."""
    service = as_new(standing)
    with service.client() as client:
        token = client.create_token(SYNCER, "scaler", ["rollback"])
        with service.client(token) as syncer_client:
            cell = RolloutCell(service.engine, client=client, writer=syncer_client)
            cell.release("1")
            cell.rounds(2)
            yield cell


def test_a_package_goes_out_wave_by_wave(cell: RolloutCell) -> None:
    """1. One task, then the others, each wave once the one before is healthy. 2. Meanwhile the job is not converged.
    3. Then it is over: nothing is written any more."""
    revision = cell.release("2")
    cell.rounds(1)
    sync = cell.client.sync("j")
    assert (sync.state, sync.plan["kind"], sync.plan["wave"], sync.plan["ends"]) == ("rolling", "rollout", 0, [1, 2, 3])
    assert sync.detail == "wave 1 of 3, 1 of 3 tasks upgraded"
    assert not is_converged(cell)
    cell.rounds(3)
    assert cell.changes == [["2", "1", "1"], ["2", "2", "1"], ["2", "2", "2"]]
    assert (cell.sync()["state"], cell.sync()["plan"], cell.running()["rollout"]) == ("synced", None, None)
    assert (cell.running()["revision"], is_converged(cell)) == (revision, True)
    before = cell.rows("SELECT xmin::text, * FROM running")
    cell.rounds(2)
    assert cell.rows("SELECT xmin::text, * FROM running") == before


def is_converged(cell: RolloutCell) -> bool:
    with transaction(cell.engine) as connection:
        found = jobs.status(connection, "j")
    assert found is not None
    return found.converged


def test_a_bad_package_disrupts_one_task_and_is_rolled_back(cell: RolloutCell) -> None:
    """1. The first task crashes: the package is rejected, with an alert. 2. The layer is written once, by the State
    Syncer's token, with the reason. 3. All tasks run the good package; other writes go on with it."""
    cell.bad = {"2"}
    cell.release("2")
    cell.rounds(10)
    assert cell.changes == [["2", "1", "1"], ["1", "1", "1"]]
    assert cell.rollback_writes() == [("put", SYNCER)]
    layer = cell.client.get_layer("j", "rollback")
    assert layer.config == {"package": {"version": "1"}}
    assert layer.reason == "package.version 2 of revision 2: wave 1 of 3: j/0: crashed after 3 crashes: no module"
    (alert,) = cell.alerts()
    assert (alert.subject, alert.details["task"], alert.details["package"]) == ("j", "j/0", "package.version 2")
    assert (cell.sync()["state"], cell.sync()["plan"], is_converged(cell)) == ("synced", None, True)
    cell.client.put_layer("j", "oncall", {"priority": 3}, if_match=0)
    cell.rounds(2)
    assert (cell.running()["config"]["priority"], cell.running()["config"]["package"]["version"]) == (3, "1")
    assert cell.rollback_writes() == [("put", SYNCER)]


def test_a_package_that_never_worked_is_not_gone_back_to(cell: RolloutCell) -> None:
    """1. A job is made with a package that crashes, and the next crashes too: the rollout is halted, with an alert, and
    nothing is written. 2. The third is good: it goes out, and the alert is closed. 3. It has worked, so the job goes
    back to it from the fourth."""
    cell.bad = {"11", "12", "14"}
    cell.release("11", job="k")
    cell.rounds(2)
    cell.release("12", job="k")
    cell.rounds(10)
    assert (cell.rejected("k")["goes_back"], cell.running("k")["config"]["package"]["version"]) == (False, "12")
    assert cell.client.history("k", layer="rollback").entries == []
    (alert,) = cell.alerts("rollout_halted")
    assert alert.message.startswith("the rollout is halted, with no package that has worked in this job to go back to")
    assert cell.sync("k")["detail"].startswith("halted, with no package that has worked")
    assert cell.alerts() == []
    cell.release("13", job="k")
    cell.rounds(8)
    assert (cell.sync("k")["state"], cell.running("k")["config"]["package"]["version"]) == ("synced", "13")
    assert (cell.rejected("k"), cell.alerts("rollout_halted")) == (None, [])
    cell.release("14", job="k")
    cell.rounds(8)
    assert (cell.sync("k")["state"], cell.running("k")["config"]["package"]["version"]) == ("synced", "13")


@pytest.mark.long
def test_a_wave_that_is_not_heard_of_waits_with_an_alert_and_goes_on_by_itself(cell: RolloutCell) -> None:
    """1. A task is not reported: that is unknown, however long it lasts. 2. It is: the waves go on."""
    cell.silent = {0}
    cell.release("2")
    cell.rounds(20)
    assert (cell.changes, cell.alerts("rollout_late")) == ([["2", "1", "1"]], [])
    cell.rounds(100)
    assert (cell.changes, cell.rejected(), cell.sync()["state"]) == ([["2", "1", "1"]], None, "rolling")
    assert ", paused: no report of 1 of 1 upgraded task since 2026-" in cell.sync()["detail"]
    (alert,) = cell.alerts("rollout_late")
    assert (alert.subject, alert.times, alert.message.count("no report of 1 of 1 upgraded task")) == ("j", 1, 1)
    cell.silent = set()
    cell.rounds(6)
    assert (cell.changes[-1], cell.sync()["state"], cell.alerts("rollout_late")) == (["2", "2", "2"], "synced", [])


@pytest.mark.long
def test_a_task_service_that_is_away_during_a_release_rolls_nothing_back(cell: RolloutCell) -> None:
    """1. The first wave is out and heard of. 2. The Task Service is away for ten minutes: neither does the container
    hear of the second wave, nor anybody of it. 3. It is back: the release goes on, and no package was rejected."""
    cell.release("2")
    cell.rounds(1)
    cell.is_away = True
    cell.rounds(120)
    assert (cell.rejected(), cell.sync()["state"], cell.sync()["plan"]["step"]) == (None, "rolling", "wave")
    assert len(cell.alerts("rollout_late")) == 1
    cell.is_away = False
    cell.rounds(8)
    assert (cell.changes[-1], cell.sync()["state"]) == (["2", "2", "2"], "synced")
    assert (cell.rollback_writes(), cell.alerts(), cell.alerts("rollout_late")) == ([], [], [])


@pytest.mark.parametrize(
    "refused", [*(pytest.param(why, marks=pytest.mark.long) for why in ("no token", "another layer")), "revoked"]
)
def test_a_rollback_that_the_job_service_does_not_allow_is_not_told_as_done(
    cell: RolloutCell, standing: RunningJobService, refused: str
) -> None:
    """1. The State Syncer's token may not write the layer: an alert says what to do, and nothing is said of a rollback.
    2. It is tried now and then. 3. The token may: the package is rolled back, and that is told."""
    token = {
        "no token": lambda: None,
        "another layer": lambda: cell.client.create_token("weak", "scaler", ["scaler"]),
        "revoked": lambda: _revoked(cell),
    }[refused]()
    cell.bad = {"2"}
    cell.release("2")
    with JobClient(standing.url, token) as weak:
        cell.restart(writer=weak)
        cell.rounds(5)
        (alert,) = cell.alerts("rollback_refused")
        assert "Give the State Syncer a token that may write the layer rollback" in alert.message
        assert (cell.alerts(), cell.rollback_writes(), cell.sync()["plan"]["step"]) == ([], [], "roll_back")
        cell.rounds(60)
        assert cell.alerts("rollback_refused") == [alert], "it says the same, and counts no tries"
    cell.restart()
    cell.rounds(3)
    assert (cell.alerts("rollback_refused"), len(cell.alerts()), cell.changes[-1]) == ([], 1, ["1", "1", "1"])


def test_a_refused_rollback_is_tried_again_by_the_same_process(cell: RolloutCell) -> None:
    """1. The Job Service is away, again and again. 2. It is back, and nobody has done anything else."""
    away = Away(times=4, then=cell.writer)
    cell.bad = {"2"}
    cell.release("2")
    cell.restart(writer=away)
    cell.rounds(4)
    (alert,) = cell.alerts("rollback_refused")
    assert alert.message == "the package is not rolled back: the job service does not answer. It is tried again"
    cell.rounds(12)
    assert (away.times, cell.changes[-1], len(cell.alerts())) == (0, ["1", "1", "1"], 1)
    assert cell.alerts("rollback_refused") == []


def test_a_layer_that_others_write_at_the_same_time_is_written_all_the_same(cell: RolloutCell) -> None:
    """A lost race is tried again with what is there then, and needs nobody."""
    cell.bad = {"2"}
    cell.release("2")
    cell.restart(writer=Racing(cell))
    cell.rounds(8)
    assert cell.client.get_layer("j", "rollback").config == {"package": {"version": "1"}, "query": {"sql": "SELECT 1"}}
    assert (len(cell.alerts()), cell.alerts("rollback_refused", include_cleared=True)) == (1, [])


def _revoked(cell: RolloutCell) -> str:
    token = cell.client.create_token("old", "scaler", ["rollback"])
    cell.client.revoke_token("old")
    return token


def test_a_release_of_a_rejected_package_by_hand_tries_it_again(cell: RolloutCell) -> None:
    """1. A package is rolled back. 2. Somebody drops the layer: it goes out again, and now it is good."""
    cell.bad = {"2"}
    cell.release("2")
    cell.rounds(6)
    cell.bad = set()
    cell.client.drop_layer("j", "rollback", if_match=1)
    cell.rounds(6)
    assert (cell.changes[-1], cell.rejected(), cell.alerts()) == (["2", "2", "2"], None, [])
    assert len(cell.alerts(include_cleared=True)) == 1
    assert [action for action, _ in cell.rollback_writes()] == ["put", "drop"]


def test_a_package_that_is_bad_again_is_rejected_again(cell: RolloutCell) -> None:
    cell.bad = {"2"}
    cell.release("2")
    cell.rounds(6)
    cell.client.drop_layer("j", "rollback", if_match=1)
    cell.rounds(6)
    assert [action for action, _ in cell.rollback_writes()] == ["put", "drop", "put"]
    assert cell.changes == [["2", "1", "1"], ["1", "1", "1"]] * 2


def test_a_new_release_goes_out_by_itself(cell: RolloutCell) -> None:
    cell.bad = {"2"}
    cell.release("2")
    cell.rounds(6)
    cell.release("3")
    cell.rounds(8)
    assert cell.rollback_writes() == [("put", SYNCER), ("drop", SYNCER)]
    assert cell.changes[2:] == [["3", "1", "1"], ["3", "3", "1"], ["3", "3", "3"]]
    assert (cell.rejected(), cell.alerts()) == (None, [])


def test_a_new_release_before_the_rollback_needs_none(cell: RolloutCell) -> None:
    cell.bad = {"2"}
    cell.release("2")
    cell.restart(writer=Away())
    cell.rounds(4)
    cell.restart()
    cell.release("3")
    cell.rounds(6)
    assert cell.changes == [["2", "1", "1"], ["3", "1", "1"], ["3", "3", "1"], ["3", "3", "3"]]
    assert (cell.rollback_writes(), cell.rejected()) == ([], None)


def test_a_rollout_stays_halted_while_the_job_service_is_away(cell: RolloutCell) -> None:
    cell.bad = {"2"}
    cell.release("2")
    cell.restart(writer=Away())
    cell.rounds(6)
    assert (cell.changes, cell.sync()["plan"]["step"]) == ([["2", "1", "1"]], "roll_back")
    assert cell.sync()["state"] == "rolling"
    cell.restart()
    cell.rounds(2)
    assert (cell.changes[-1], cell.sync()["state"]) == (["1", "1", "1"], "synced")


def test_a_rollback_that_is_refused_has_an_alert_until_it_is_accepted(cell: RolloutCell) -> None:
    """1. The good query needs an argument that the release took away: people must give it. 2. They do."""
    cell.release("1", query={"sql": "SELECT key, :n AS n FROM events"}, args={"n": 1})
    cell.rounds(2)
    cell.bad = {"2"}
    cell.release("2")
    cell.rounds(5)
    (alert,) = cell.alerts("rollback_refused")
    assert ("is not rolled back" in alert.message, "args has no n" in alert.message, alert.times) == (True, True, 1)
    assert (cell.sync()["plan"]["step"], cell.changes[-1]) == ("roll_back", ["2", "1", "1"])
    cell.client.patch_layer("j", "oncall", {"args": {"n": 1}}, if_match=0)
    cell.rounds(3)
    assert (cell.alerts("rollback_refused"), len(cell.alerts())) == ([], 1)


def _deaths() -> Iterator[Any]:
    """Both kinds of package die in every round, before and after the write; the short tests have every other round."""
    for is_bad, round_, after_write in product((False, True), range(3), (False, True)):
        is_short = after_write == (round_ == 0) and (round_ + is_bad) % 2 == 0
        yield pytest.param(round_, after_write, is_bad, marks=[] if is_short else [pytest.mark.long])


@pytest.mark.parametrize(("round_", "after_write", "is_bad"), list(_deaths()))
def test_a_syncer_that_dies_at_any_write_is_carried_on_by_the_next(
    cell: RolloutCell, round_: int, *, after_write: bool, is_bad: bool
) -> None:
    """1. A rollout is some rounds old. 2. The syncer dies before or after its write. 3. Another leads: it ends as it
    would have, with one task disrupted by a bad package, and one write of the layer."""
    cell.bad = {"2"} if is_bad else set()
    cell.release("2")
    cell.rounds(round_)
    cell.restart(Interfering(cell.engine, die, after_write=after_write))
    with pytest.raises(Killed):
        cell.rounds(4)
    depose(cell.engine)
    cell.epoch = elect(cell.engine, "second")
    cell.restart()
    cell.report_all()
    cell.rounds(6)
    good = [["2", "1", "1"], ["2", "2", "1"], ["2", "2", "2"]]
    assert cell.changes == ([["2", "1", "1"], ["1", "1", "1"]] if is_bad else good)
    assert cell.rollback_writes() == ([("put", SYNCER)] if is_bad else [])
    assert (cell.sync()["state"], cell.sync()["plan"], cell.running()["rollout"]) == ("synced", None, None)


@pytest.mark.parametrize("change", [{"task_count": 4}, {"desired_state": "stopped"}])
def test_a_rescale_and_a_stop_end_a_rollout(cell: RolloutCell, change: dict[str, object]) -> None:
    cell.release("2")
    cell.rounds(1)
    cell.release("2", **change)
    cell.rounds(4)
    assert cell.changes == [["2", "1", "1"], []]
    assert cell.sync()["state"] == ("rescaling" if "task_count" in change else "synced")


def test_a_deleted_job_is_forgotten_in_a_rollout_and_its_alert_is_closed(cell: RolloutCell) -> None:
    cell.bad = {"2"}
    cell.release("2")
    cell.restart(writer=Away())
    cell.rounds(3)
    cell.client.delete_job("j")
    cell.rounds(3)
    assert (cell.running(), cell.alerts()) == (None, [])


@pytest.mark.parametrize("found", ["wave", "halted"])
@pytest.mark.parametrize("many", [False, True])
def test_a_job_that_is_deleted_while_its_rollout_is_recorded_is_forgotten(
    cell: RolloutCell, monkeypatch: pytest.MonkeyPatch, found: str, *, many: bool
) -> None:
    """Also where there are more jobs to look at than are read at once."""
    monkeypatch.setattr("services.state_syncer.store.jobs.PAGE", 1 if many else 1000)
    cell.bad = {"2"} if found == "halted" else set()
    cell.silent = {0} if found == "wave" else set()
    cell.restart(writer=Away())
    cell.release("2")
    cell.rounds(2)
    assert cell.sync()["plan"]["step"] == ("roll_back" if found == "halted" else "wave")
    cell.client.delete_job("j")
    cell.rounds(1)
    assert cell.running()["stopping"]
    cell.rounds(2)
    assert (cell.running(), cell.sync(), cell.alerts()) == (None, None, [])


def test_no_more_jobs_are_disrupted_at_once_than_the_budget_allows(cell: RolloutCell) -> None:
    """1. Two jobs get a release, there is room for one: that of the older write. 2. The other says what it waits for,
    and goes when the first is done."""
    cell.release("1", job="k")
    cell.rounds(2)
    cell.budget = Budget(share=0.1)
    cell.restart()
    cell.release("2")
    cell.release("2", job="k")
    cell.rounds(1)
    assert (cell.sync("j")["state"], cell.sync("k")["state"]) == ("rolling", "queued")
    assert cell.sync("k")["detail"] == "waiting: no more than 1 job may be disrupted at once"
    cell.rounds(8)
    assert (cell.sync("j")["state"], cell.sync("k")["state"]) == ("synced", "synced")
    assert cell.running("k")["config"]["package"]["version"] == "2"


def test_a_rollout_that_an_older_state_syncer_committed_over_is_over(cell: RolloutCell) -> None:
    """It knows neither the column nor the plan: all tasks run what it committed."""
    cell.release("2")
    cell.rounds(1)
    cell.do("UPDATE running SET revision = revision + 1, commit_number = commit_number + 1")
    cell.report_all()
    assert cell.changes[-1] == ["2", "2", "2"]
    with SyncStore(cell.engine).read() as found:
        (view,) = found.named(["j"])
    assert view.running is not None
    assert view.running.rollout is None
