"""A Shard Manager and a Task Service for one container, in the test, on real ports; the store is a real one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from sqlalchemy import Engine

from penstock.local.ports import free_port
from penstock.store.cluster import set_shard_count
from penstock.store.engine import transaction
from penstock.store.shards import Change, ensure_shards, read_assignment, read_owners, record_owners, register
from penstock.tasks.ownership import Member
from penstock.tasks.spec import TaskTemplate
from penstock.wire.cluster import HeartbeatAnswer, HeartbeatRequest, Snapshot, TaskReport, TaskReportBatch
from tests.support.shard_manager import serving

SHARDS = 4


class FakeCell:
    """Gives every shard to the container that asks. `down` makes both services answer 503."""

    def __init__(self, engine: Engine, lease_seconds: float) -> None:
        self.down = False
        self.url = ""
        self.heartbeats: list[HeartbeatRequest] = []
        self.reports: list[TaskReportBatch] = []
        self._engine = engine
        self._lease_seconds = lease_seconds
        self._commit = 1
        self._templates: tuple[TaskTemplate, ...] = ()
        self._news = threading.Condition()

    def run(self, *templates: TaskTemplate) -> None:
        """These are all jobs from now on."""
        with self._news:
            self._commit += 1
            self._templates = templates
            self._news.notify_all()

    def tasks(self) -> dict[str, TaskReport]:
        """The newest report's tasks by id."""
        return {f"{task.job}/{task.index}": task for task in self.reports[-1].tasks} if self.reports else {}

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatAnswer:
        member = Member(request.container, request.incarnation, request.url, request.region, 1.0, 2**30, 2**30)
        with transaction(self._engine) as connection:
            register(connection, member, empty=not request.held and not request.dropped)
            owners = read_owners(connection)
            free = {shard: Change(member.name, of.epoch) for shard, of in owners.items() if of.container is None}
            record_owners(connection, free)
            shards = read_assignment(connection, member.name)
        self.heartbeats.append(request)
        return HeartbeatAnswer(
            known=True,
            version=max(shards.values()),
            shard_count=SHARDS,
            lease_seconds=self._lease_seconds,
            shards=shards,
        )

    def specs(self, after: int | None, wait_seconds: float) -> Snapshot:
        with self._news:
            if after is not None:
                self._news.wait_for(lambda: self._commit > after, min(wait_seconds, 1.0))
            return Snapshot(full=True, commit_number=self._commit, shard_count=SHARDS, templates=self._templates)


def _app(cell: FakeCell) -> FastAPI:
    app = FastAPI()

    @app.middleware("http")
    async def refuse_when_down(request: Any, call_next: Any) -> Any:
        return JSONResponse({"detail": "down"}, status_code=503) if cell.down else await call_next(request)

    @app.post("/v1/heartbeats")
    def heartbeat(request: HeartbeatRequest) -> HeartbeatAnswer:
        return cell.heartbeat(request)

    @app.get("/v1/specs")
    def specs(after: int | None = None, wait_seconds: float = 0.0) -> Snapshot:
        return cell.specs(after, wait_seconds)

    @app.post("/v1/reports", status_code=204)
    def reports(batch: TaskReportBatch) -> None:
        cell.reports.append(batch)

    return app


@contextmanager
def fake_cell(engine: Engine, lease_seconds: float) -> Iterator[FakeCell]:
    """A cell with four shards on the store of `engine`; `url` is that of both services."""
    with transaction(engine) as connection:
        set_shard_count(connection, SHARDS)
        ensure_shards(connection, SHARDS)
    cell = FakeCell(engine, lease_seconds)
    with serving(_app(cell), free_port()) as url:
        cell.url = url
        yield cell
