"""The Task Service of the contract suite: the real one, and in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine, text

from penstock.control.process import wait_until
from penstock.store.engine import transaction
from penstock.store.running import STATE_SYNCER, CommitRow
from penstock.tasks.ownership import Member
from penstock.wire.cluster import HeartbeatRequest
from penstock.wire.task_client import TaskServiceClient
from services.shard_manager.store.members import register
from services.state_syncer.store.port import Batch
from tests.support import identity
from tests.support.memory import ownership
from tests.support.memory.election import MemoryElection
from tests.support.memory.specs import MemoryTaskService
from tests.support.memory.store import MemoryStore
from tests.support.memory.sync import MemorySyncStore
from tests.support.store.jobs import make_config
from tests.support.store.running import FIRST_WAVE, break_row, commit_job, commit_mixed, forget_job
from tests.support.store.unreachable import NOWHERE
from tests.support.task_manager.world import CAPACITY
from tests.support.task_service.service import task_service

CONTAINER = "c1"


def first_heartbeat(incarnation: str) -> HeartbeatRequest:
    return HeartbeatRequest(
        container="c1", incarnation=incarnation, url=NOWHERE, region="local", capacity=CAPACITY, held={}
    )


class TaskServiceForm:
    def __init__(self, engine: Engine, url: str) -> None:
        self.engine = engine
        self.url = url

    def client(self, *, away: bool = False, container: str = CONTAINER) -> Any:
        return TaskServiceClient(NOWHERE if away else self.url, identity=identity.container(container))

    def commit(self, job: str, *, stopping: bool = False) -> int:
        return self._once_read(commit_job(self.engine, job, stopping=stopping))

    def commit_mixed(self, job: str) -> int:
        return self._once_read(commit_mixed(self.engine, job))

    def break_row(self, job: str) -> int:
        return self._once_read(break_row(self.engine, job))

    def forget(self, job: str) -> None:
        forget_job(self.engine, job)

    def register(self, incarnation: str) -> None:
        with transaction(self.engine) as connection:
            register(connection, Member("c1", incarnation, NOWHERE, "local", 1.0, 1, 1), empty=True)

    def reported(self) -> set[str]:
        with transaction(self.engine) as connection:
            return {f"{row.job}/{row.index}" for row in connection.execute(text("SELECT job, index FROM tasks"))}

    def _once_read(self, number: int) -> int:
        client = TaskServiceClient(self.url, identity=identity.container(CONTAINER))
        wait_until(lambda: client.delta(-1, 0.0).commit_number >= number, 10, "the commit to be read")
        return number


class MemoryForm:
    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self._syncer = MemorySyncStore(store)
        self._epoch = MemoryElection(store, STATE_SYNCER, "test", lease_seconds=60.0).take()

    def client(self, *, away: bool = False, container: str = CONTAINER) -> Any:
        """`container` does not matter: who calls is a matter of HTTP."""
        client = MemoryTaskService(self.store)
        client.down = away
        return client

    def commit(self, job: str, *, stopping: bool = False) -> int:
        return self._write(job, make_config(), stopping=stopping)

    def order(self, job: str, **order: Any) -> int:
        return self._write(job, make_config(), **order)

    def commit_mixed(self, job: str) -> int:
        return self._write(job, make_config(priority=2), rollout=FIRST_WAVE)

    def break_row(self, job: str) -> int:
        return self._write(job, {"query": {}, "task_count": -1})

    def forget(self, job: str) -> None:
        self.store.write_layer(job, "base", {})
        self.store.jobs[job].deleting = True
        assert self._epoch is not None
        self._syncer.write(Batch(forget=[job]), self._epoch)

    def register(self, incarnation: str) -> None:
        ownership.register(self.store, ownership.member_of(first_heartbeat(incarnation)), empty=True)

    def reported(self) -> set[str]:
        return {f"{task.job}/{task.index}" for tasks in self.store.tasks.values() for task in tasks}

    def _write(self, job: str, config: Any, **row: Any) -> int:
        commit = CommitRow(job, json.dumps(config).encode(), 1, 1, 0, stopping=False, started=True)._replace(**row)
        assert self._epoch is not None
        number = self._syncer.write(Batch(commits=[commit], remade=[job]), self._epoch)
        assert number is not None
        return number


@contextmanager
def a_task_service(request: pytest.FixtureRequest) -> Iterator[TaskServiceForm]:
    engine = request.getfixturevalue("engine")
    with task_service(request.getfixturevalue("database_url")) as service:
        yield TaskServiceForm(engine, service.has_read().url)


@contextmanager
def in_memory(request: pytest.FixtureRequest) -> Iterator[MemoryForm]:
    yield MemoryForm(request.getfixturevalue("memory"))
