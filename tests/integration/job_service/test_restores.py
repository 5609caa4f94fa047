"""Restores from savepoints: what is refused, and the State Syncer's plans on a real Postgres."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from penstock.control.errors import Conflict, Forbidden, InvalidConfig, NotFound
from penstock.model.states import JobState
from penstock.tasks.redistribution import RedistributionRequest, SavepointName, SealRequest
from penstock.wire.job_client import JobClient
from services.state_syncer.decide.progress import Step
from tests.support.cli.shell import Shell
from tests.support.control.rounds import rounds_go_on
from tests.support.job_service.service import CONFIG, RunningJobService
from tests.support.state_syncer.cell import Cell, Interfering, depose, elect
from tests.support.state_syncer.containers import everything_works, fails_at, waits_at

SOURCE = SavepointName(job="etl", name="nightly", number=1)


@pytest.fixture
def cell(service: RunningJobService, client: JobClient) -> Cell:
    """A job that runs, with a savepoint of its first generation."""
    client.put_job("etl", CONFIG)
    cell = Cell(service.engine, ("a", "b"))
    cell.rounds(1)
    client.create_savepoint("etl", "nightly")
    cell.do(
        """
        UPDATE savepoints SET state = 'ready', generation = r.generation, revision = r.revision, config = r.config
        FROM running r WHERE r.job = savepoints.job
        """
    )
    return cell


def redistributions(cell: Cell, job: str = "etl") -> list[RedistributionRequest]:
    asked = [attempt.request for attempt in cell.containers.asked if attempt.key.job == job]
    return [request for request in asked if isinstance(request, RedistributionRequest)]


def restores_left(cell: Cell) -> list[Any]:
    return cell.rows("SELECT job FROM restores")


def test_a_job_is_rolled_back_at_another_size(client: JobClient, cell: Cell) -> None:
    """1. Asked for, with another size, for which a container checks the query. 2. Stopped, redistributed from the
    savepoint, the running generation sealed, committed. 3. It was done once: nothing is left to do, however often the
    syncer looks."""
    client.restore("etl", "nightly", task_count=4, reason="a bad release")
    cell.rounds(2)
    assert (cell.running("etl")["stopping"], client.get_job("etl").state) == (True, "restoring")
    listed = client.jobs_page(state=JobState.RESTORING).jobs
    assert [(job.job, job.state) for job in listed] == [("etl", "restoring")]
    assert (client.sync("etl").state, client.jobs_page(state=JobState.RESCALING).jobs) == ("restoring", [])
    plan = client.sync("etl").plan
    assert plan is not None
    assert plan["restore"] == {"number": 1, "savepoint": SOURCE.model_dump(), "generation": 1}
    cell.rounds(5)
    job = client.get_job("etl")
    assert (job.state, job.generation, job.config["task_count"]) == ("synced", 2, 4)
    (request,) = redistributions(cell)
    assert (request.source.savepoint, request.source.generation) == (SOURCE, 1)
    assert (len(request.source.ranges), len(request.target.ranges), request.target.savepoint) == (1, 4, None)
    seal = cell.containers.asked[-1].request
    assert isinstance(seal, SealRequest)
    assert (seal.layout.generation, seal.layout.savepoint) == (1, None)
    assert restores_left(cell) == []
    cell.rounds(5)
    assert len(cell.containers.asked) == 3
    assert client.history("etl").entries[0].action == "restore"


@pytest.mark.parametrize("rounds", [0, 1, 2, 3])
def test_a_restore_is_cancelled_until_the_old_generation_is_given_up(
    client: JobClient, cell: Cell, rounds: int
) -> None:
    """1. Asked for; the State Syncer has not seen it, or stops the tasks, or has a container write. 2. Cancelled: the
    job continues as it ran, in its old generation, and the savepoint may be deleted."""
    cell.containers.works = waits_at(Step.REDISTRIBUTE)
    client.restore("etl", "nightly", reason="a bad release")
    cell.rounds(rounds)
    assert client.cancel_restore("etl", reason="the wrong one").action == "cancel_restore"
    cell.rounds(4)
    running = cell.running("etl")
    assert (running["generation"], running["stopping"], client.sync("etl").state) == (1, False, "synced")
    assert (restores_left(cell), client.sync("etl").plan) == ([], None)
    assert [(entry.action, entry.reason) for entry in client.history("etl").entries[:2]] == [
        ("cancel_restore", "the wrong one"),
        ("restore", "a bad release"),
    ]
    assert client.delete_savepoint("etl", "nightly").state == "deleting"
    with pytest.raises(Conflict, match="no restore of etl is in progress"):
        client.cancel_restore("etl")


def test_a_restore_whose_old_generation_is_given_up_is_not_cancelled(client: JobClient, cell: Cell) -> None:
    """1. The old checkpoints are being sealed. 2. It is too late: nothing changes, and the restore comes to its end."""
    cell.containers.works = waits_at(Step.SEAL)
    client.restore("etl", "nightly")
    cell.rounds(5)
    assert cell.step("etl") == "seal"
    with pytest.raises(Conflict, match="can no longer be cancelled") as refused:
        client.cancel_restore("etl")
    assert (refused.value.rule, len(restores_left(cell))) == ("not_committed", 1)
    cell.containers.works = everything_works
    cell.restart()
    cell.rounds(3)
    assert (client.sync("etl").state, cell.running("etl")["generation"], restores_left(cell)) == ("synced", 2, [])


def test_a_restore_that_is_cancelled_while_its_step_is_written_is_not_carried_on(client: JobClient, cell: Cell) -> None:
    """1. A round has decided to give the old checkpoints up. 2. Before it writes, the restore is cancelled. 3. Nobody
    is asked to seal, and the job continues as it ran."""
    client.restore("etl", "nightly")
    cell.rounds(2)
    assert cell.step("etl") == "redistribute"
    cell.restart(Interfering(cell.engine, lambda: client.cancel_restore("etl")))
    cell.rounds(1)
    assert cell.step("etl") == "redistribute"
    cell.rounds(3)
    assert (cell.running("etl")["generation"], client.sync("etl").state) == (1, "synced")
    assert not [attempt for attempt in cell.containers.asked if isinstance(attempt.request, SealRequest)]


def test_a_size_that_a_cancelled_restore_has_written_is_another_write(client: JobClient, cell: Cell) -> None:
    """It stays in its layer: the job is rescaled from its own checkpoints."""
    client.restore("etl", "nightly", task_count=4)
    cell.rounds(2)
    client.cancel_restore("etl")
    cell.rounds(8)
    assert (client.get_job("etl").config["task_count"], client.sync("etl").state) == (4, "synced")
    assert redistributions(cell)[-1].source.savepoint is None


def test_only_operators_cancel_restores(service: RunningJobService, client: JobClient, cell: Cell) -> None:
    client.restore("etl", "nightly")
    with service.client(client.create_token("tool", "provisioner")) as tool, pytest.raises(Forbidden):
        tool.cancel_restore("etl")
    with pytest.raises(NotFound):
        client.cancel_restore("nobody")


def test_a_restore_is_cancelled_on_the_command_line(shell: Shell, client: JobClient, cell: Cell) -> None:
    client.restore("etl", "nightly")
    assert "cancel_restore etl: revision" in shell("savepoint", "cancel-restore", "etl", "--reason", "no").ok()
    assert "no restore of etl is in progress" in shell("savepoint", "cancel-restore", "etl").refusal()


def test_the_command_speaks_of_a_restore(shell: Shell, cell: Cell) -> None:
    """1. Its plan fails: what takes it back is no other size. 2. It ends, and the lag that follows is told before."""
    cell.containers.works = fails_at(Step.REDISTRIBUTE)
    with rounds_go_on(partial(cell.rounds, 1)):
        ended = shell("savepoint", "restore", "etl", "nightly")
    assert (ended.code, "disk full" in ended.err) == (1, True)
    assert "To give it up, `penstock savepoint cancel-restore etl`" in " ".join(ended.err.split())
    assert "rescaling: " not in ended.out
    cell.containers.works = everything_works
    with rounds_go_on(partial(cell.rounds, 1)):
        said = shell("savepoint", "restore", "etl", "nightly").ok()
    assert said.endswith(
        "reads again what came after the savepoint: until it has caught up, it lags. `penstock why etl`\n"
    )


def test_a_restore_that_cannot_be_read_fails_its_job_alone(client: JobClient, cell: Cell) -> None:
    """1. The row of a restore is none that this version can read: the job goes on as it runs. 2. Another job is brought
    to what it should be. 3. The row is mended, and the job released: it is restored."""
    client.restore("etl", "nightly", task_count=4)
    before = cell.running("etl")
    cell.do("UPDATE restores SET config = jsonb_build_array(config)")
    client.put_job("other", CONFIG)
    cell.rounds(2)
    sync = client.sync("etl")
    assert (sync.state, sync.detail.startswith("its recorded restore cannot be read")) == ("failed", True)
    assert (cell.running("etl"), client.sync("other").state) == (before, "synced")
    cell.do("UPDATE restores SET config = config->0")
    client.release("etl")
    cell.rounds(6)
    assert (client.get_job("etl").state, client.get_job("etl").config["task_count"]) == ("synced", 4)


def test_the_code_of_then_comes_back_when_it_is_asked_for(client: JobClient, cell: Cell) -> None:
    """1. A query was changed since the savepoint. 2. A restore leaves it. 3. One with the package of then brings the
    old query back, as a write of on-call's."""
    changed = {"query": {"sql": f"{CONFIG['query']['sql']} WHERE true"}}
    client.patch_layer("etl", "provisioner", changed, if_match=0)
    cell.rounds(2)
    client.restore("etl", "nightly")
    cell.rounds(6)
    assert client.get_job("etl").config["query"]["sql"] == changed["query"]["sql"]
    client.restore("etl", "nightly", with_package=True, reason="the query was wrong")
    cell.rounds(6)
    job = client.get_job("etl")
    assert (job.state, job.config["query"]["sql"]) == ("synced", CONFIG["query"]["sql"])
    assert client.get_layer("etl", "oncall").config == {"query": {"sql": CONFIG["query"]["sql"]}}


def test_a_new_job_starts_from_anothers_savepoint(client: JobClient, cell: Cell) -> None:
    """1. Created, and restored before it runs: no task is served until the savepoint is in its checkpoints."""
    output = {**CONFIG["output"], "topic": "copy"}
    client.put_job("copy", {**CONFIG, "output": output})
    client.restore("copy", "nightly", of="etl", task_count=2)
    cell.rounds(1)
    assert cell.running("copy")["config"]["desired_state"] == "stopped"
    for _ in range(6):
        cell.rounds(1)
        row = cell.running("copy")
        assert row["stopping"] or row["generation"] == 2
    assert (row["generation"], row["config"]["desired_state"], row["stopping"]) == (2, "running", False)
    (request,) = redistributions(cell, "copy")
    assert (request.source.savepoint, request.source.config.output.topic) == (SOURCE, CONFIG["output"]["topic"])
    assert (request.target.config.output.topic, len(request.target.ranges)) == ("copy", 2)
    assert client.get_job("copy").state == "synced"
    assert cell.running("etl")["generation"] == 1


def test_rows_that_other_jobs_read_are_written_again_with_a_word_only(client: JobClient, cell: Cell) -> None:
    """1. A job reads the topic of the one that is to go back, another one by a pattern: refused, both are named, and
    nothing has changed. 2. So is a copy with the same topic; one with a topic of its own starts. 3. With the word it
    goes back."""
    topic = CONFIG["output"]["topic"]
    (name, source), *_ = CONFIG["inputs"].items()
    alone = {key: value for key, value in source.items() if key != "topic"}
    elsewhere = {"output": {**CONFIG["output"], "topic": "elsewhere"}}
    client.put_job("reads", {**CONFIG, **elsewhere, "inputs": {name: {**source, "topic": topic}}})
    matching = {name: {**alone, "topic_pattern": f"{topic}|others"}}
    client.put_job("matches", {**CONFIG, **elsewhere, "inputs": matching, "completeness": "drop_late"})
    with pytest.raises(Conflict, match=rf"again to {topic}.* late: matches, reads\. .*allow_repeats") as refused:
        client.restore("etl", "nightly", task_count=4)
    assert (refused.value.field, refused.value.rule) == ("allow_repeats", "read_by_others")
    assert (restores_left(cell), client.get_job("etl").config["task_count"]) == ([], CONFIG.get("task_count", 1))
    client.put_job("copy", {**CONFIG, "desired_state": "stopped"})
    with pytest.raises(Conflict, match="matches, reads"):
        client.restore("copy", "nightly", of="etl")
    client.put_job("copy", {**CONFIG, "output": {**CONFIG["output"], "topic": "copy"}})
    client.restore("copy", "nightly", of="etl")
    client.restore("etl", "nightly", allow_repeats=True)
    assert {row["job"] for row in restores_left(cell)} == {"copy", "etl"}


def test_a_job_that_was_restored_stopped_has_checkpoints(client: JobClient, cell: Cell) -> None:
    """Its next change of size is a rescale."""
    client.put_job("copy", {**CONFIG, "desired_state": "stopped"})
    client.restore("copy", "nightly", of="etl")
    cell.rounds(7)
    assert (cell.running("copy")["generation"], cell.running("copy")["started"]) == (2, True)
    client.rescale("copy", 2)
    cell.rounds(6)
    assert [request.source.generation for request in redistributions(cell, "copy")] == [1, 2]


@pytest.mark.parametrize("rounds", [1, 3, *(pytest.param(rounds, marks=pytest.mark.long) for rounds in (0, 2, 4, 5))])
def test_a_crash_at_any_round_loses_nothing(client: JobClient, cell: Cell, rounds: int) -> None:
    """1. The leader ends after so many rounds. 2. The next one carries on: one generation more, one redistribution."""
    client.restore("etl", "nightly")
    cell.rounds(rounds)
    depose(cell.engine)
    cell.epoch = elect(cell.engine, "second")
    cell.restart()
    cell.rounds(7)
    assert (client.get_job("etl").state, client.get_job("etl").generation) == ("synced", 2)
    assert len(redistributions(cell)) == 1
    assert restores_left(cell) == []


def test_a_restore_that_fails_resumes_the_job_and_is_tried_again(client: JobClient, cell: Cell) -> None:
    cell.containers.works = fails_at(Step.REDISTRIBUTE)
    client.restore("etl", "nightly")
    cell.rounds(4)
    assert (client.get_job("etl").state, cell.running("etl")["stopping"]) == ("failed", False)
    assert (cell.running("etl")["generation"], len(restores_left(cell))) == (1, 1)
    cell.containers.works = everything_works
    client.release("etl")
    cell.rounds(6)
    assert (client.get_job("etl").state, client.get_job("etl").generation) == ("synced", 3)


def test_a_newer_restore_takes_the_place_of_one_under_way(client: JobClient, cell: Cell) -> None:
    client.restore("etl", "nightly", reason="first")
    cell.rounds(2)
    client.restore("etl", "nightly", reason="second")
    cell.rounds(8)
    assert client.get_job("etl").state == "synced"
    assert len(redistributions(cell)) == 2
    assert restores_left(cell) == []


def test_what_is_refused(service: RunningJobService, client: JobClient, cell: Cell) -> None:
    with pytest.raises(NotFound):
        client.restore("other", "nightly")
    with pytest.raises(NotFound):
        client.restore("etl", "other")
    client.put_job("else", {**CONFIG, "output_mode": "update" if CONFIG.get("output_mode") != "update" else "append"})
    with pytest.raises(InvalidConfig) as refused:
        client.restore("else", "nightly", of="etl")
    assert (refused.value.field, refused.value.rule) == ("output_mode", "as_in_savepoint")
    client.create_savepoint("etl", "later")
    with pytest.raises(Conflict, match="is asked"):
        client.restore("etl", "later", task_count=2)
    assert client.get_layer("etl", "oncall").version == 0, "all of it or nothing"
    with pytest.raises(Forbidden):
        service.client(client.create_token("scaler", "scaler")).restore("etl", "nightly")
    client.restore("etl", "nightly")
    with pytest.raises(Conflict, match="a restore from this savepoint is in progress"):
        client.delete_savepoint("etl", "nightly")


def test_the_command_tells_the_steps_until_the_job_runs(
    service: RunningJobService,
    client: JobClient,
    cell: Cell,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PENSTOCK_URL", service.url)
    monkeypatch.setenv("PENSTOCK_TOKEN", service.admin)
    shell = Shell(monkeypatch, capsys)
    with capture_logs():
        written = shell("savepoint", "restore", "etl", "nightly", "--tasks", "2", "--no-wait").ok()
        assert written.startswith("restore etl: revision ")
        cell.rounds(6)
        cell.containers.works = fails_at(Step.REDISTRIBUTE)
        assert shell("savepoint", "restore", "etl", "nightly", "--no-wait", "--of", "etl").ok()
        cell.rounds(4)
        ended = shell("savepoint", "restore", "etl", "none")
    assert client.get_job("etl").generation == 2
    assert client.sync("etl").state == "failed"
    assert (ended.code, "no savepoint none" in ended.err) == (1, True)
