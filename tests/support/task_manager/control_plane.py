"""A Shard Manager and a Task Service for one container, in the test, on real ports; the store is a real one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Header, Response
from fastapi.responses import JSONResponse
from sqlalchemy import Engine

from penstock.local.ports import free_port
from penstock.model.reports import TaskReport, TaskReportBatch
from penstock.store.cluster import ask_for_shards
from penstock.store.engine import transaction
from penstock.tasks.ownership import Member, Membership
from penstock.tasks.spec import TaskTemplate
from penstock.wire.app import create_app
from penstock.wire.cluster import HeartbeatAnswer, HeartbeatRequest, Snapshot
from services.shard_manager.store.members import register
from services.shard_manager.store.owners import Change, ensure_shards, read_owners, record_owners
from services.task_service.store.reports import save_report
from services.task_service.templates import Templates
from tests.support.control.serving import serving
from tests.support.memory.specs import snapshot_of

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
        self._templates = Templates(1, SHARDS, {}, {}, {})
        self._news = threading.Condition()
        self._closed = False

    def run(self, *templates: TaskTemplate) -> None:
        """These are all jobs from now on."""
        with self._news:
            self._templates = _next(self._templates, templates)
            self._news.notify_all()

    def close(self) -> None:
        """Lets those who wait for news go."""
        with self._news:
            self._closed = True
            self._news.notify_all()

    def tasks(self) -> dict[str, TaskReport]:
        """The newest report's tasks by id."""
        return {f"{task.job}/{task.index}": task for task in self.reports[-1].tasks} if self.reports else {}

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatAnswer:
        member = Member(request.container, request.incarnation, request.url, request.region, 1.0, 2**30, 2**30)
        with transaction(self._engine) as connection:
            known = register(connection, member, empty=not request.held and not request.dropped)
            owners = read_owners(connection)
            free = {shard: Change(member.name, of.epoch) for shard, of in owners.items() if of.container is None}
            record_owners(connection, free if known is not Membership.REFUSED else {})
            owners = read_owners(connection)
        self.heartbeats.append(request)
        mine = {shard: of.epoch for shard, of in owners.items() if of.container == member.name}
        return HeartbeatAnswer(
            known=known is not Membership.REFUSED,
            version=max(of.epoch for of in owners.values()),
            shard_count=SHARDS,
            lease_seconds=self._lease_seconds,
            shards=mine if known is not Membership.REFUSED else {},
        )

    def report(self, batch: TaskReportBatch) -> None:
        """Keeps a report. Raises Conflict for one of a life that is over."""
        with transaction(self._engine) as connection:
            save_report(connection, batch, ())
        self.reports.append(batch)

    def specs(self, after: int | None, wait_seconds: float) -> Snapshot:
        with self._news:
            if after is not None and after <= self._templates.commit_number:
                self._news.wait_for(lambda: self._closed or self._templates.commit_number > after, wait_seconds)
            return snapshot_of(self._templates, after)


def _next(known: Templates, jobs: tuple[TaskTemplate, ...]) -> Templates:
    """The templates after a commit that makes `jobs` all there are: new ones, and those that changed, carry it."""
    number = known.commit_number + 1
    before = {job: template.model_copy(update={"commit_number": 0}) for job, template in known.by_job.items()}
    same = {job.job for job in jobs if before.get(job.job) == job.model_copy(update={"commit_number": 0})}
    fresh = {
        job.job: known.by_job[job.job] if job.job in same else job.model_copy(update={"commit_number": number})
        for job in jobs
    }
    gone = dict.fromkeys(known.by_job.keys() - fresh.keys(), number)
    removed = {job: commit for job, commit in known.removed.items() if job not in fresh}
    return Templates(number, SHARDS, fresh, removed | gone, {})


def _app(cell: FakeCell) -> FastAPI:
    app = create_app("fake_cell", ready=dict)

    @app.middleware("http")
    async def refuse_when_down(request: Any, call_next: Any) -> Any:
        return JSONResponse({"detail": "down"}, status_code=503) if cell.down else await call_next(request)

    @app.post("/v1/heartbeats")
    def heartbeat(request: HeartbeatRequest) -> HeartbeatAnswer:
        return cell.heartbeat(request)

    @app.get("/v1/specs")
    def specs(
        after: int | None = None, wait_seconds: float = 0.0, if_none_match: Annotated[str | None, Header()] = None
    ) -> Response:
        snapshot = cell.specs(after, wait_seconds)
        tag = f'W/"{snapshot.commit_number}"'
        if after is None and if_none_match == tag:
            return Response(status_code=304, headers={"ETag": tag})
        return Response(snapshot.model_dump_json(), headers={"ETag": tag}, media_type="application/json")

    @app.post("/v1/reports", status_code=204)
    def reports(batch: TaskReportBatch) -> None:
        cell.report(batch)

    return app


@contextmanager
def fake_cell(engine: Engine, lease_seconds: float) -> Iterator[FakeCell]:
    """A cell with four shards on the store of `engine`; `url` is that of both services."""
    with transaction(engine) as connection:
        ask_for_shards(connection, SHARDS)
        ensure_shards(connection, SHARDS)
    cell = FakeCell(engine, lease_seconds)
    with serving(_app(cell), free_port()) as url:
        cell.url = url
        try:
            yield cell
        finally:
            cell.close()
