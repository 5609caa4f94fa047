"""Savepoints in the Job Service, the State Syncer's rounds about them, and `penstock savepoint`."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import pytest
from sqlalchemy import Engine, text
from structlog.testing import capture_logs

from penstock.control.errors import Conflict, Fenced, Forbidden, InvalidConfig, NotFound
from penstock.store.engine import transaction
from penstock.tasks.host_task import IMPORT_CHECKPOINT, TAKE_SAVEPOINT
from penstock.tasks.savepoint import ImportRequest, SavedTask, SavepointRemoval, SavepointReport, SavepointRequest
from penstock.wire.job_client import JobClient
from penstock.wire.savepoints import waits_for
from services.state_syncer.host_tasks.outcomes import AttemptKey, Done, Failed, Lost, Outcome
from services.state_syncer.savepoints.reconciler import SavepointReconciler
from services.state_syncer.savepoints.store import SavepointStore
from tests.support.cli.shell import Shell
from tests.support.control.rounds import rounds_go_on
from tests.support.job_service.service import CONFIG, RunningJobService, job_service
from tests.support.state_syncer.cell import Cell, depose, elect
from tests.support.state_syncer.containers import Containers, MemoryHostTasks

REPORT = SavepointReport(
    tasks=(SavedTask(index=0, batch=7), SavedTask(index=1, batch=3, taken_from="old", why="gone")), bytes=1234
)


def everything_works(key: AttemptKey) -> Outcome:
    return Done(REPORT) if key.kind in (TAKE_SAVEPOINT, IMPORT_CHECKPOINT) else Done()


class Keeping:
    """A job that runs on two containers, and the leader's rounds. The containers do at once what they are asked."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.cell = Cell(engine, ("a", "b"))
        self.epoch = self.cell.epoch
        self.containers = Containers(everything_works)
        self._host_tasks = MemoryHostTasks(self.containers)

    def reconciler(self, **more: int | float) -> SavepointReconciler:
        settings = {"keep_count": 50, **more}
        return SavepointReconciler(SavepointStore(self.engine), self._host_tasks, **settings)  # type: ignore[arg-type]

    def rounds(self, count: int) -> None:
        """Each round is a new process: all that it knows of the ones before is in the store."""
        for _ in range(count):
            self.reconciler().round(self.epoch)


@pytest.fixture
def keeping(service: RunningJobService, client: JobClient) -> Keeping:
    client.put_job("etl", CONFIG)
    keeping = Keeping(service.engine)
    keeping.cell.rounds(1)
    return keeping


def test_a_savepoint_is_taken_and_says_what_it_is_of(client: JobClient, keeping: Keeping) -> None:
    """1. Asked for. 2. Bound to what runs, before anybody is asked. 3. Asked. 4. Ready, with its report."""
    asked = client.create_savepoint("etl", "nightly", reason="before the upgrade")
    assert (asked.state, asked.generation, asked.reason) == ("asked", None, "before the upgrade")
    keeping.rounds(1)
    bound = client.savepoint("etl", "nightly")
    assert (bound.state, bound.generation, keeping.containers.asked) == ("asked", 1, [])
    keeping.rounds(2)
    (ask,) = keeping.containers.asked
    assert isinstance(ask.request, SavepointRequest)
    assert (ask.request.name, ask.request.number, ask.request.layout.generation) == ("nightly", asked.number, 1)
    ready = client.savepoint("etl", "nightly")
    assert (ready.state, ready.bytes, ready.config) == ("ready", 1234, bound.config)
    assert [(task.batch, task.taken_from) for task in ready.tasks or []] == [(7, None), (3, "old")]
    assert ready.finished_at is not None
    assert client.savepoints("etl").savepoints == [ready]


def test_the_checkpoint_of_an_application_becomes_a_savepoint_of_a_job_that_never_ran(
    service: RunningJobService, client: JobClient
) -> None:
    """1. It is of one task, whatever the job has. 2. It never stands in for a task of the job. 3. A failure ends it."""
    client.put_job("etl", {**CONFIG, "task_count": 2, "desired_state": "stopped"})
    keeping = Keeping(service.engine)
    asked = client.create_savepoint("etl", "old", checkpoint="file:/old", reason="from spark-submit")
    assert (asked.checkpoint, asked.generation, (asked.config or {})["task_count"]) == ("file:/old", 1, 1)
    keeping.rounds(3)
    (ask,) = keeping.containers.asked
    assert isinstance(ask.request, ImportRequest)
    assert (ask.request.checkpoint, len(ask.request.layout.ranges)) == ("file:/old", 1)
    assert client.savepoint("etl", "old").state == "ready"
    client.restore("etl", "old")
    client.create_savepoint("etl", "again", checkpoint="file:/old")
    assert SavepointStore(service.engine).read().earlier == {}
    keeping.containers.works = lambda key: Failed("its query reads another topic")
    keeping.rounds(3)
    failed = client.savepoint("etl", "again")
    assert (failed.state, failed.detail) == ("failed", "its query reads another topic")


@pytest.mark.parametrize("path", ["file:/elsewhere/x", "relative", "file:/data/../etc", "s3a://bucket/x"])
def test_a_checkpoint_outside_the_roots_is_refused(database_url: str, path: str) -> None:
    with job_service(database_url, path_roots=("file:/data",)) as service, service.client() as client:
        client.put_job("etl", {**CONFIG, "desired_state": "stopped"})
        with pytest.raises(InvalidConfig) as refused:
            client.create_savepoint("etl", "old", checkpoint=path)
        assert (refused.value.field, refused.value.rule) == ("checkpoint", "below_path_roots")
        assert client.savepoints("etl").savepoints == []


def test_savepoints_that_are_ready_may_stand_in(client: JobClient, keeping: Keeping) -> None:
    for name in ("one", "two", "three"):
        client.create_savepoint("etl", name)
        keeping.rounds(3)
    assert [ask.request.earlier for ask in keeping.containers.asked if isinstance(ask.request, SavepointRequest)] == [
        (),
        ("one",),
        ("two", "one"),
    ]


def test_a_failure_is_told_after_some_attempts_and_a_loss_is_made_good(client: JobClient, keeping: Keeping) -> None:
    keeping.containers.works = lambda key: Failed("disk full") if key.container == "a" else Lost("no answer")
    client.create_savepoint("etl", "broken")
    for _ in range(100):
        keeping.rounds(1)
        if client.savepoint("etl", "broken").state != "asked":
            break
    failed = client.savepoint("etl", "broken")
    assert (failed.state, failed.detail, failed.tasks) == ("failed", "disk full", None)
    assert len(keeping.containers.asked) >= 5


def test_a_deletion_removes_the_files_then_the_row_also_of_a_forgotten_job(client: JobClient, keeping: Keeping) -> None:
    """1. Ready. 2. The job is forgotten: the savepoint stays. 3. Deleted; repeated that changes nothing. 4. Gone."""
    number = client.create_savepoint("etl", "nightly").number
    keeping.rounds(3)
    with transaction(keeping.engine) as connection:
        connection.execute(text("DELETE FROM jobs WHERE name = 'etl'; DELETE FROM running WHERE job = 'etl'"))
    assert client.savepoint("etl", "nightly").state == "ready"
    for _ in range(2):
        assert client.delete_savepoint("etl", "nightly").state == "deleting"
    keeping.rounds(3)
    assert keeping.containers.asked[-1].request == SavepointRemoval(job="etl", name="nightly", number=number)
    assert client.savepoints("etl").savepoints == []
    with pytest.raises(NotFound):
        client.savepoint("etl", "nightly")


def test_files_that_cannot_be_deleted_are_tried_again_after_a_pause(client: JobClient, keeping: Keeping) -> None:
    """1. A removal fails. 2. Nobody is asked while it pauses. 3. When the pause is over another container is asked."""
    client.create_savepoint("etl", "nightly")
    keeping.rounds(3)
    keeping.containers.works = lambda key: Failed("disk full")
    client.delete_savepoint("etl", "nightly")
    before = len(keeping.containers.asked)
    keeping.rounds(9)
    assert client.savepoint("etl", "nightly").detail == "disk full"
    assert len(keeping.containers.asked) == before + 1
    keeping.containers.works = everything_works
    with transaction(keeping.engine) as connection:
        connection.execute(text("UPDATE savepoints SET next_attempt_at = next_attempt_at - interval '30 seconds'"))
    keeping.rounds(3)
    assert client.savepoints("etl").savepoints == []


def test_only_so_many_are_kept_and_not_for_ever(client: JobClient, keeping: Keeping) -> None:
    for name in ("one", "two", "three"):
        client.create_savepoint("etl", name)
    keeping.rounds(3)
    keeping.reconciler(keep_count=2).round(keeping.epoch)
    assert {view.name: view.state for view in client.savepoints("etl").savepoints} == {
        "one": "deleting",
        "two": "ready",
        "three": "ready",
    }
    with transaction(keeping.engine) as connection:
        connection.execute(text("UPDATE savepoints SET created_at = '2020-01-01' WHERE name = 'two'"))
    keeping.reconciler(keep_seconds=86_400.0).round(keeping.epoch)
    assert client.savepoint("etl", "two").state == "deleting"
    assert client.savepoint("etl", "three").state == "ready"


def test_a_leader_that_was_deposed_writes_nothing(client: JobClient, keeping: Keeping) -> None:
    client.create_savepoint("etl", "nightly")
    depose(keeping.engine)
    elect(keeping.engine, "second")
    with pytest.raises(Fenced):
        keeping.rounds(1)
    assert client.savepoint("etl", "nightly").generation is None


def test_what_is_refused(service: RunningJobService, client: JobClient, keeping: Keeping) -> None:
    with pytest.raises(NotFound):
        client.create_savepoint("other", "nightly")
    with pytest.raises(InvalidConfig) as refused:
        client.create_savepoint("etl", "../etc")
    assert refused.value.field == "body.name"
    client.put_job("never", CONFIG)
    with pytest.raises(Conflict, match="no checkpoint"):
        client.create_savepoint("never", "nightly")
    for role in ("reader", "provisioner", "scaler"):
        secret = client.create_token(role, role)  # type: ignore[arg-type]
        for refusal in (
            lambda other: other.create_savepoint("etl", "nightly"),
            lambda other: other.delete_savepoint("etl", "nightly"),
        ):
            with pytest.raises(Forbidden):
                refusal(service.client(secret))
    client.create_savepoint("etl", "nightly")
    with pytest.raises(Conflict) as taken:
        client.create_savepoint("etl", "nightly")
    assert (taken.value.field, taken.value.rule) == ("name", "unique")


def test_a_repeated_call_with_its_key_asks_once(client: JobClient, keeping: Keeping) -> None:
    first = client.create_savepoint("etl", idempotency_key="k")
    assert client.create_savepoint("etl", idempotency_key="k") == first
    assert datetime.strptime(first.name, "%Y%m%d-%H%M%S-%f").replace(tzinfo=UTC) is not None
    assert len(client.savepoints("etl").savepoints) == 1


def test_what_one_that_is_asked_for_waits_for(client: JobClient, keeping: Keeping) -> None:
    """1. A container. 2. The container. 3. The next attempt, after the container failed. 4. Nothing."""
    keeping.containers.works = lambda key: Failed("disk full")
    client.create_savepoint("etl", "nightly")
    assert waits_for(client.savepoint("etl", "nightly")) == "waits for the State Syncer to choose a container"
    keeping.rounds(1)
    bound = client.savepoint("etl", "nightly")
    assert bound.container in ("a", "b")
    assert waits_for(bound).startswith(f"{bound.container} copies the checkpoints; without a warm Spark host")
    keeping.rounds(2)
    again = waits_for(client.savepoint("etl", "nightly"))
    assert again.startswith("waits for the State Syncer to choose a container; the last attempt failed: ")
    assert again.endswith("disk full")
    for _ in range(30):
        keeping.rounds(1)
        with transaction(keeping.engine) as connection:
            connection.execute(text("UPDATE savepoints SET next_attempt_at = NULL"))
    assert waits_for(client.savepoint("etl", "nightly")) == ""


def test_the_command_says_what_it_waits_for(
    service: RunningJobService, keeping: Keeping, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No round comes: the command says once why nothing happens, and that it waited in vain."""
    monkeypatch.setenv("PENSTOCK_URL", service.url)
    monkeypatch.setenv("PENSTOCK_TOKEN", service.admin)
    with capture_logs():
        ended = Shell(monkeypatch, capsys)("savepoint", "create", "etl", "nightly", "--timeout", "1s")
    assert ended.out.splitlines()[1:] == ["savepoint nightly: waits for the State Syncer to choose a container"]
    assert ended.code == 3


def test_the_commands(
    service: RunningJobService, keeping: Keeping, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PENSTOCK_URL", service.url)
    monkeypatch.setenv("PENSTOCK_TOKEN", service.admin)
    shell = Shell(monkeypatch, capsys)
    with capture_logs():
        with rounds_go_on(partial(keeping.rounds, 1)):
            said = shell("savepoint", "create", "etl", "nightly", "--reason", "why not").ok().splitlines()
            keeping.containers.works = lambda key: Failed("disk full")
            failed = shell("savepoint", "create", "etl", "broken")
        assert all(line.startswith("savepoint nightly: ") for line in said[1:-2])
        assert said[-2:] == [
            "savepoint nightly of etl is ready: generation 1, 1,234 bytes",
            "task 1 is from savepoint old: gone",
        ]
        assert (failed.code, "disk full" in failed.err) == (1, True)
        assert "nightly" in shell("savepoint", "list", "etl").ok()
        assert '"bytes": 1234' in shell("savepoint", "show", "etl", "nightly").ok()
        assert shell("savepoint", "delete", "etl", "nightly").ok().strip().endswith("is being deleted")
