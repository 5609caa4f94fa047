"""The HTTP side: task specs out, task reports in."""

from __future__ import annotations

from threading import Lock
from typing import Annotated, Any

from fastapi import FastAPI, Header, Query, Response
from sqlalchemy import Engine

from penstock.control.errors import Conflict, Unavailable
from penstock.identity.process import ProcessIdentity
from penstock.identity.rules import require_container
from penstock.model.reports import TaskReportBatch
from penstock.store.engine import transaction
from penstock.wire.app import OwnThreads, create_internal_app
from penstock.wire.cluster import KNOWS_HEADER, KNOWS_LEVELS, Snapshot
from penstock.wire.gate import KnownCaller
from services.task_service import metrics
from services.task_service.cache import TemplateCache
from services.task_service.encoding import Encoded, Encoder
from services.task_service.samples import sample
from services.task_service.store.reports import save_report
from services.task_service.templates import Templates
from services.task_service.waiters import Waiters

AGE_HEADER = "Penstock-Snapshot-Age-Seconds"
CATCH_UP_SECONDS = 2.0
ENCODING_THREADS = 2


class SpecAnswers:
    """Answers to requests for task specs, from the cache."""

    def __init__(self, cache: TemplateCache, waiters: Waiters, *, longest_wait_seconds: float) -> None:
        self._cache = cache
        self._waiters = waiters
        self._longest_wait_seconds = longest_wait_seconds
        self._encoder = Encoder()
        self._encoding = Lock()
        # Its own threads: while the store does not answer, reports may occupy all others.
        self._threads = OwnThreads(ENCODING_THREADS)

    async def full(self, levels: bool) -> Encoded:
        """A full snapshot. Raises Unavailable before the store was first read."""
        return await self._threads.run(self._encode, self._known(), None, levels)

    async def delta(self, after: int, wait_seconds: float, levels: bool) -> Encoded:
        """What was committed above `after`; waits up to `wait_seconds` for a commit.

        A full snapshot when the store itself is behind `after`, since it is another store or was restored. Raises
        Unavailable before the store was first read, and when this process is behind the caller and cannot catch up.
        """
        if after > self._known().commit_number:
            await self._catch_up(after)
        known = self._known()
        if after > known.commit_number:
            return await self.full(levels)
        with metrics.waiting.track_inprogress():
            seconds = min(wait_seconds, self._longest_wait_seconds)
            await self._waiters.wait(lambda: self._known().commit_number > after, seconds)
        return await self._threads.run(self._encode, self._known(), after, levels)

    def readiness(self) -> dict[str, Any]:
        """For `/readyz`."""
        return {"commit_number": self._known().commit_number, "age_seconds": round(self._cache.age_seconds(), 3)}

    def _encode(self, templates: Templates, after: int | None, levels: bool) -> Encoded:
        with self._encoding:
            return self._encoder.encode(templates, after, levels=levels)

    async def _catch_up(self, after: int) -> None:
        """Reads the store once more: the caller may know a newer commit from another Task Service."""
        reads = self._cache.reads
        self._cache.wake()
        if not await self._waiters.wait(lambda: self._cache.reads > reads, CATCH_UP_SECONDS):
            raise Unavailable(f"the job store cannot be read; it was last read before commit {after}")

    def _known(self) -> Templates:
        if self._cache.templates is None:
            raise Unavailable("the job store has not been read yet")
        return self._cache.templates


def build_app(
    engine: Engine,
    cache: TemplateCache,
    waiters: Waiters,
    *,
    longest_wait_seconds: float,
    identity: ProcessIdentity,
    open_metrics: bool = False,
) -> FastAPI:
    """`GET /v1/specs`, `POST /v1/reports` and the calls that every service has."""
    specs = SpecAnswers(cache, waiters, longest_wait_seconds=longest_wait_seconds)
    app = create_internal_app("task_service", ready=specs.readiness, identity=identity, open_metrics=open_metrics)

    @app.get("/v1/specs", response_model=Snapshot)
    async def get_specs(
        after: Annotated[int | None, Query(ge=-1, le=2**63 - 1)] = None,
        wait_seconds: Annotated[float, Query(ge=0, le=3600)] = 0.0,
        if_none_match: Annotated[str | None, Header()] = None,
        accept_encoding: Annotated[str, Header()] = "",
        penstock_knows: Annotated[str, Header(alias=KNOWS_HEADER)] = "",
    ) -> Response:
        levels = KNOWS_LEVELS in penstock_knows
        encoded = await (specs.full(levels) if after is None else specs.delta(after, wait_seconds, levels))
        return _response(encoded, if_none_match, accept_encoding, cache.age_seconds())

    @app.post("/v1/reports", status_code=204)
    def post_reports(batch: TaskReportBatch, caller: KnownCaller) -> None:
        """The report is stored when the answer is 204."""
        require_container(caller, batch.container)
        try:
            with transaction(engine) as connection:
                save_report(connection, batch, [sample(task) for task in batch.tasks])
        except Conflict:
            metrics.reports.labels("refused").inc()
            raise
        metrics.reports.labels("stored").inc()

    return app


def _response(encoded: Encoded, if_none_match: str | None, accept_encoding: str, age_seconds: float) -> Response:
    headers = {"ETag": encoded.etag, AGE_HEADER: f"{age_seconds:.3f}", "Vary": "Accept-Encoding"}
    tags = [tag.strip() for tag in (if_none_match or "").split(",")]
    if encoded.etag in tags:
        return Response(status_code=304, headers=headers)
    if "gzip" not in accept_encoding:
        return Response(encoded.body, headers=headers, media_type="application/json")
    headers["Content-Encoding"] = "gzip"
    return Response(encoded.compressed, headers=headers, media_type="application/json")
