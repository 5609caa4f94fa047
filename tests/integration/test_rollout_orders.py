"""What operators ask of a rollout, on a real Postgres with a real Job Service and the State Syncer's rounds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from penstock.control.errors import Conflict, Forbidden, InvalidConfig, NotFound
from penstock.wire.job_client import JobClient
from tests.support.cli.shell import Shell
from tests.support.job_service.service import RunningJobService
from tests.support.state_syncer.cell import Interfering, Killed, depose, die, elect
from tests.support.state_syncer.rollouts import RolloutCell

NEVER_ENDING = 60


@pytest.fixture
def cell(service: RunningJobService) -> Iterator[RolloutCell]:
    """Job j runs version 1 of its package as three tasks."""
    with service.client() as client, service.client(client.create_token("syncer", "scaler", ["rollback"])) as writer:
        cell = RolloutCell(service.engine, client=client, writer=writer)
        cell.release("1")
        cell.rounds(2)
        yield cell


@pytest.fixture
def shell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], service: RunningJobService
) -> Iterator[Shell]:
    monkeypatch.setenv("PENSTOCK_URL", service.url)
    monkeypatch.setenv("PENSTOCK_TOKEN", service.admin)
    with capture_logs():
        yield Shell(monkeypatch, capsys)


@pytest.mark.long
def test_a_paused_rollout_stays_as_it_is_until_it_is_resumed(cell: RolloutCell) -> None:
    """1. The first wave is out; it is paused: no further one begins, and all views say so. 2. Resumed: it goes out. 3.
    The history has both."""
    client = cell.client
    cell.release("2")
    cell.rounds(1)
    client.pause_rollout("j", reason="a look at it")
    cell.rounds(NEVER_ENDING)
    assert cell.changes == [["2", "1", "1"]]
    told = "wave 1 of 3, 1 of 3 tasks upgraded, paused by admin: a look at it"
    assert (client.sync("j").detail, client.get_job("j").detail, client.get_job("j").state) == (told, told, "rolling")
    order = client.sync("j").rollout_order
    assert order is not None
    assert (order["action"], order["author"], order["reason"]) == ("pause", "admin", "a look at it")
    shown = client.rollout("j")
    assert (shown.state, shown.wave, shown.waves, shown.upgraded, shown.tasks) == ("paused", 1, 3, 1, 3)
    assert (shown.package, shown.order and shown.order.reason) == ("version 2", "a look at it")
    client.resume_rollout("j", reason="it is good")
    cell.rounds(8)
    assert (cell.changes[-1], client.rollout("j").state, cell.sync()["rollout_order"]) == (["2"] * 3, "none", None)
    entries = [(entry.action, entry.author, entry.reason) for entry in client.history("j").entries[:2]]
    assert entries == [("resume_rollout", "admin", "it is good"), ("pause_rollout", "admin", "a look at it")]


def test_a_rescale_waits_while_a_package_is_paused(cell: RolloutCell) -> None:
    """It would bring the package to all tasks."""
    cell.release("2")
    cell.rounds(1)
    cell.client.pause_rollout("j", reason="a look")
    cell.release("2", task_count=4)
    cell.rounds(NEVER_ENDING)
    assert (cell.changes, cell.sync()["state"]) == ([["2", "1", "1"]], "rolling")
    cell.client.resume_rollout("j", reason="good")
    cell.rounds(2)
    assert cell.sync()["state"] == "rescaling"


def test_an_aborted_rollout_goes_back_everywhere(cell: RolloutCell) -> None:
    """1. Two of three tasks have the package, and nothing speaks against it: aborted all the same. 2. All tasks run the
    one before, by the layer `rollback` with the operator's reason. 3. The layer dropped, it goes out again."""
    client = cell.client
    cell.release("2")
    cell.rounds(2)
    client.abort_rollout("j", reason="wrong figures")
    assert client.rollout("j").state == "aborting"
    cell.rounds(6)
    assert cell.changes[-1] == ["1", "1", "1"]
    layer = client.get_layer("j", "rollback")
    assert (layer.config, layer.author) == ({"package": {"version": "1"}}, "syncer")
    assert layer.reason.endswith(": aborted by admin: wrong figures")
    (alert,) = cell.alerts()
    assert alert.message.endswith(": j: aborted by admin: wrong figures")
    assert (cell.sync()["state"], cell.sync()["rollout_order"]) == ("synced", None)
    client.drop_layer("j", "rollback", if_match=1)
    cell.rounds(8)
    assert (cell.changes[-1], cell.alerts()) == (["2", "2", "2"], [])


def test_a_halted_rollout_is_aborted_where_nothing_is_proven(cell: RolloutCell) -> None:
    """1. A job's first package never worked, and the second does not: the rollout is halted. 2. Aborted: the job goes
    back to the first, since an operator says so."""
    cell.bad = {"11", "12"}
    cell.release("11", job="k")
    cell.rounds(2)
    cell.release("12", job="k")
    cell.rounds(8)
    assert (cell.client.rollout("k").state, cell.running("k")["config"]["package"]["version"]) == ("halted", "12")
    cell.client.abort_rollout("k", reason="the first one, please")
    cell.rounds(4)
    assert (cell.client.rollout("k").state, cell.running("k")["config"]["package"]["version"]) == ("none", "11")
    assert cell.alerts("rollout_halted") == []


@pytest.mark.parametrize("action", ["pause", "abort"])
def test_another_package_has_a_rollout_of_its_own(cell: RolloutCell, action: str) -> None:
    """What was asked of the one before is not about it."""
    cell.release("2")
    cell.rounds(1)
    {"pause": cell.client.pause_rollout, "abort": cell.client.abort_rollout}[action]("j", reason="no")
    cell.release("3")
    cell.rounds(10)
    assert (cell.changes[-1], cell.sync()["state"], cell.rollback_writes()) == (["3", "3", "3"], "synced", [])


@pytest.mark.parametrize("after_write", [False, True])
@pytest.mark.parametrize("action", ["pause", "abort"])
def test_a_syncer_that_dies_is_carried_on_as_was_asked(cell: RolloutCell, action: str, *, after_write: bool) -> None:
    """1. The syncer dies before or after its write. 2. Another leads: the order stands, as it would have."""
    cell.release("2")
    cell.rounds(1)
    {"pause": cell.client.pause_rollout, "abort": cell.client.abort_rollout}[action]("j", reason="no")
    cell.restart(Interfering(cell.engine, die, after_write=after_write))
    with pytest.raises(Killed):
        cell.rounds(4)
    depose(cell.engine)
    cell.epoch = elect(cell.engine, "second")
    cell.restart()
    cell.rounds(8)
    assert cell.changes == ([["2", "1", "1"]] if action == "pause" else [["2", "1", "1"], ["1", "1", "1"]])
    assert cell.rollback_writes() == ([] if action == "pause" else [("put", "syncer")])


def test_what_cannot_be_asked_of_a_rollout_is_refused(cell: RolloutCell) -> None:
    client = cell.client
    for order in (client.pause_rollout, client.resume_rollout, client.abort_rollout):
        with pytest.raises(Conflict, match="no package of j is going out"):
            order("j", reason="no")
        with pytest.raises(NotFound):
            order("nobody", reason="no")
        with pytest.raises(InvalidConfig, match="reason"):
            order("j", reason="")
    cell.release("2")
    cell.rounds(1)
    with pytest.raises(Conflict, match="is not paused by anybody"):
        client.resume_rollout("j", reason="no")
    client.abort_rollout("j", reason="no")
    with pytest.raises(Conflict, match="is aborted already"):
        client.pause_rollout("j", reason="no")
    cell.rounds(2)
    assert client.rollout("j").state in ("rolling_back", "none")
    revision = client.get_job("j").revision
    with pytest.raises(Conflict):
        client.abort_rollout("j", reason="no")
    assert client.get_job("j").revision == revision


@pytest.mark.parametrize(
    ("role", "allowed"), [("reader", False), ("provisioner", False), ("scaler", False), ("oncall", True)]
)
def test_operators_alone_ask_anything_of_a_rollout(
    cell: RolloutCell, standing: RunningJobService, role: str, *, allowed: bool
) -> None:
    cell.release("2")
    cell.rounds(1)
    with JobClient(standing.url, cell.client.create_token("tool", role)) as tool:  # type: ignore[arg-type]
        assert tool.rollout("j").state == "rolling"
        if allowed:
            assert tool.pause_rollout("j", reason="mine").action == "pause_rollout"
        else:
            with pytest.raises(Forbidden):
                tool.pause_rollout("j", reason="not mine")
            assert cell.sync()["rollout_order"] is None


def test_rollouts_on_the_command_line(shell: Shell, cell: RolloutCell) -> None:
    cell.release("2")
    cell.rounds(1)
    assert "pause_rollout j: revision" in shell("rollout", "pause", "j", "--reason", "a look").ok()
    assert '"state": "paused"' in shell("rollout", "show", "j").ok()
    assert "resume_rollout j: revision" in shell("rollout", "resume", "j", "--reason", "good").ok()
    assert "abort_rollout j: revision" in shell("rollout", "abort", "j", "--reason", "bad").ok()
