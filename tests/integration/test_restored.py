"""After a restore of the job store: the runbook `penstock/store/RESTORE.md`, on a real dump and real services."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, text

from penstock.cli.restored import newest_generations
from penstock.control.errors import Unavailable
from penstock.control.process import wait_until
from penstock.local.ports import free_port
from penstock.local.postgres import create_database, program
from penstock.store.address import libpq_url
from penstock.store.cluster import ask_for_shards
from penstock.store.engine import connect, transaction
from penstock.store.incarnation import EPOCHS_RAISED, GENERATIONS_RAISED, NUMBERS_RAISED, begin_incarnation
from penstock.wire.task_client import TaskServiceClient
from services.state_syncer.settings import StateSyncerSettings
from services.state_syncer.wiring import build as build_syncer
from tests.integration.test_task_managers_and_shard_manager import Member
from tests.support import identity
from tests.support.cli.shell import lone
from tests.support.shard_manager.manager import RunningShardManager, shard_manager
from tests.support.state_syncer.cell import elect
from tests.support.store.database import fresh_database
from tests.support.store.jobs import make_layer, write_layer
from tests.support.store.running import commit_job
from tests.support.task_manager.world import SHARDS
from tests.support.task_service.service import RunningTaskService, task_service

QUIET_SECONDS = 4.0
KEPT = {f"kept/{index}" for index in range(4)}


class Cell:
    """A store with its services, each on a port of its own that it keeps."""

    def __init__(self, server_url: str, database_url: str) -> None:
        self.server_url, self.url = server_url, database_url
        self.name = database_url.split("?")[0].rpartition("/")[2]
        self.engine = connect(database_url)
        self._ports = {"shard_manager": free_port(), "task_service": free_port()}
        self.manager_url, self.specs_url = (f"http://127.0.0.1:{port}" for port in self._ports.values())

    @contextmanager
    def services(self) -> Iterator[tuple[RunningShardManager, RunningTaskService]]:
        """A State Syncer, a Shard Manager and a Task Service, until the end."""
        periods = {"state_syncer_lease_seconds": 1.0, "state_syncer_renew_seconds": 0.3}
        syncer = build_syncer(
            StateSyncerSettings(database_url=self.url, state_syncer_period_seconds=0.2, **periods),
            identity.outgoing("state_syncer"),
        )
        syncer.start()
        try:
            with (
                task_service(self.url, port=self._ports["task_service"]) as specs,
                shard_manager(self.url, port=self._ports["shard_manager"]) as manager,
            ):
                yield manager, specs
        finally:
            syncer.stop()

    def member(self, name: str, folder: Path) -> Member:
        """A container that fetches its specs from the Task Service."""
        return Member(
            name,
            self.engine,
            self.manager_url,
            folder,
            TaskServiceClient(self.specs_url, identity=identity.container(name)),
        )

    def dump(self, path: Path) -> None:
        subprocess.run([program("pg_dump"), "-Fc", "-f", path, libpq_url(self.url)], check=True, timeout=60)

    def restore(self, path: Path) -> None:
        """The database as it was dumped, in the place of the present one."""
        self.engine.dispose()
        limit = "-c statement_timeout=30s"
        with psycopg.connect(libpq_url(self.server_url), autocommit=True, options=limit) as connection:
            connection.execute(f'DROP DATABASE "{self.name}" WITH (FORCE)')
        create_database(self.server_url, self.name)
        command = [program("pg_restore"), "--exit-on-error", "-d", libpq_url(self.url), path]
        subprocess.run(command, check=True, timeout=60)

    def scalar(self, sql: str, **values: Any) -> Any:
        with transaction(self.engine) as connection:
            return connection.execute(text(sql), values).scalar()


@pytest.fixture
def cell(postgres_url: str, template_database: str) -> Iterator[Cell]:
    with fresh_database(postgres_url, template_database) as url:
        cell = Cell(postgres_url, url)
        with transaction(cell.engine) as connection:
            ask_for_shards(connection, SHARDS)
        yield cell
        cell.engine.dispose()


def priorities(*members: Member) -> dict[str, int]:
    """The priority with which each task runs."""
    return {name: start.spec.config.priority for member in members for name, start in member.hosts.running().items()}


def test_a_cell_goes_on_after_a_restore_from_a_dump(
    cell: Cell,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """
    1. Two containers run a job; the store is dumped. 2. The job changes, another one is made, a container restarts.
    3. The services are stopped and the dump is restored. A Task Service on it answers nobody with older commits.
    4. `penstock restored`, and the services start. The numbers of the lost writes are not used again.
    5. The containers stop all tasks, join anew, and run what the dump says, with what is written from then on: no task
       twice, none of the job that is lost.
    """
    with ExitStack() as stack:
        services = stack.enter_context(ExitStack())
        services.enter_context(cell.services())
        first, second = (stack.enter_context(cell.member(name, tmp_path).joined()) for name in ("c1", "c2"))
        first.hosts.others, second.hosts.others = [second.hosts], [first.hosts]
        write_layer(cell.engine, "kept", make_layer(task_count=4))
        wait_until(lambda: priorities(first, second) == dict.fromkeys(KEPT, 0), 20, "the job to run")
        cell.dump(tmp_path / "dump")

        write_layer(cell.engine, "kept", make_layer(task_count=4, priority=3))
        write_layer(cell.engine, "lost", make_layer())
        lost = dict.fromkeys(("lost/0", "lost/1"), 0)
        wait_until(lambda: priorities(first, second) == dict.fromkeys(KEPT, 3) | lost, 20, "the changes to run")
        used = max(epoch for each in (first, second) for epoch in each.container.summary().shards.values())
        commit = cell.scalar("SELECT value FROM counters WHERE name = 'running_commit'")
        revision = cell.scalar("SELECT value FROM counters WHERE name = 'revision'")
        lives = {each.container.summary().incarnation for each in (first, second)}
        store = cell.scalar("SELECT value #>> '{}' FROM cluster WHERE key = 'incarnation'")

        services.close()
        cell.restore(tmp_path / "dump")
        with task_service(cell.url) as specs, pytest.raises(Unavailable, match="penstock restored"):
            TaskServiceClient(specs.has_read().url, identity=identity.container("one")).delta(commit, 0.0, store)

        with lone(monkeypatch, capsys, tmp_path) as shell:
            asked = ("--reason", "disk lost", "--database-url", cell.url, "--quiet-seconds", f"{QUIET_SECONDS}")
            said = shell("restored", *asked).ok()
        assert f"it was {store}" in said
        assert "2 containers join anew" in said
        assert cell.scalar("SELECT reason FROM incarnations WHERE former = :former", former=store) == "disk lost"
        services.enter_context(cell.services())
        assert write_layer(cell.engine, "kept", make_layer(task_count=4, priority=5)) > revision + NUMBERS_RAISED - 100
        wait_until(lambda: priorities(first, second) == dict.fromkeys(KEPT, 5), 30, "the restored job to run")
        summaries = [each.container.summary() for each in (first, second)]
        assert not lives & {each.incarnation for each in summaries}
        assert all(epoch > used for each in summaries for epoch in each.shards.values())
        assert all((each.commit_number or 0) > commit for each in summaries)
        assert (first.hosts.twice, second.hosts.twice) == ([], [])


def test_a_service_that_runs_on_reads_everything_of_another_incarnation(cell: Cell) -> None:
    """1. A Task Service knows two jobs. 2. It runs while the store begins another incarnation in which a row differs
    under a number that it knows. 3. Whoever asks gets the rows of the new one."""
    commit_job(cell.engine, "a")
    number = commit_job(cell.engine, "b")
    with task_service(cell.url) as specs:
        client = TaskServiceClient(specs.has_read().url, identity=identity.container("one"))
        known = client.full()
        with transaction(cell.engine) as connection:
            connection.execute(text("UPDATE running SET config = config || '{\"priority\": 9}' WHERE job = 'a'"))
            connection.execute(text("DELETE FROM running WHERE job = 'b'"))
            begun = begin_incarnation(connection, author="test", reason="test", quiet_seconds=0.0)
        answer = client.delta(known.commit_number, 10.0, known.store)
        assert (answer.full, answer.store) == (True, begun.incarnation)
        assert [(each.job, each.config.priority) for each in answer.templates] == [("a", 9)]
        assert answer.commit_number > number + NUMBERS_RAISED - 100


def test_no_number_is_used_twice(engine: Engine) -> None:
    """1. Everything that counts is raised. 2. Nobody leads before the time is over, and then under a higher epoch."""
    write_layer(engine, "a", make_layer())
    commit_job(engine, "a")
    epoch = elect(engine, "test-syncer")
    before = numbers(engine)
    with transaction(engine) as connection:
        begin_incarnation(connection, author="test", reason="test", quiet_seconds=0.0)
    after = numbers(engine)
    assert {name for name in before if after[name] <= before[name]} == set()
    assert elect(engine, "after") > epoch + EPOCHS_RAISED
    with transaction(engine) as connection:
        begin_incarnation(connection, author="test", reason="test", quiet_seconds=60.0)
    with pytest.raises(AssertionError):
        elect(engine, "too soon")


def numbers(engine: Engine) -> dict[str, int]:
    with transaction(engine) as connection:
        counters = connection.execute(text("SELECT name, value FROM counters")).all()
        version = connection.execute(text("SELECT version FROM expected_layers WHERE job = 'a'")).scalar_one()
        newest = connection.execute(text("SELECT newest_generation FROM running WHERE job = 'a'")).scalar_one()
        savepoint = connection.execute(
            text("SELECT nextval(pg_get_serial_sequence('savepoints', 'number'))")
        ).scalar_one()
    found = {row.name: row.value for row in counters}
    return found | {"version": version, "newest": newest, "savepoint": savepoint}


def test_generations_on_disk_are_not_used_twice(engine: Engine, tmp_path: Path) -> None:
    """1. A job was rescaled after the backup, another was made after it. 2. Neither number is used again, and no row
    asks for the files to be deleted. 3. Without the folder all are raised."""
    for folder in ("a/g1/task-0", "a/g7", "a/g2", "b/g3", "b/gone", "c/g1"):
        (tmp_path / folder).mkdir(parents=True)
    on_disk = newest_generations(tmp_path)
    assert on_disk == {"a": 7, "b": 3, "c": 1}
    for job in ("a", "c"):
        commit_job(engine, job)
    with transaction(engine) as connection:
        begun = begin_incarnation(connection, author="test", reason="test", on_disk=on_disk)
    assert (dict(begun.behind), begun.unknown) == ({"a": (1, 7)}, ("b",))
    assert newest(engine) == {"a": 7, "c": 1}
    with transaction(engine) as connection:
        assert connection.execute(text("SELECT job, generation FROM forgotten")).all() == [("b", 3)]
        waiting = connection.execute(text("SELECT count(*) FROM generations WHERE collected_at IS NULL"))
        assert waiting.scalar_one() == 0
        begin_incarnation(connection, author="test", reason="test")
    assert newest(engine) == {"a": 7 + GENERATIONS_RAISED, "c": 1 + GENERATIONS_RAISED}


def newest(engine: Engine) -> dict[str, int]:
    with transaction(engine) as connection:
        rows = connection.execute(text("SELECT job, newest_generation FROM running ORDER BY job"))
        return {row.job: row.newest_generation for row in rows}
