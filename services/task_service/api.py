"""The HTTP side: task specs out, task reports in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import FastAPI, Header, Query, Response
from sqlalchemy import Engine
from starlette.concurrency import run_in_threadpool

from penstock.control.errors import Conflict, Unavailable
from penstock.identity.process import ProcessIdentity
from penstock.identity.roles import Caller
from penstock.identity.rules import require_container
from penstock.model.reports import TaskReportBatch, TaskReportChanges
from penstock.store.engine import transaction
from penstock.wire.app import OwnThreads, at_end, create_internal_app
from penstock.wire.cluster import (
    KNOWS_DIGESTS,
    KNOWS_HEADER,
    KNOWS_LEVELS,
    REPORT_NUMBER_HEADER,
    ChangesAnswer,
    LeaseAnswer,
    LeaseRequest,
    Snapshot,
)
from penstock.wire.desk import BatchDesk
from penstock.wire.direct import add_direct_call
from penstock.wire.gate import KnownCaller
from services.task_service import metrics
from services.task_service.answers import Answers
from services.task_service.cache import TemplateCache
from services.task_service.encoding import Asked, Encoded
from services.task_service.leases import LeaseDesk
from services.task_service.store.leases import answer_one, renew_all
from services.task_service.store.reports import save_changes, save_quiet, save_report
from services.task_service.templates import Templates
from services.task_service.waiters import Waiters

AGE_HEADER = "Penstock-Snapshot-Age-Seconds"
CATCH_UP_SECONDS = 2.0
GATHER_SECONDS = 0.2
"""So 3,000 containers in which nothing is new cost a few transactions a second, and not hundreds."""
ENCODING_THREADS = 2


class SpecAnswers:
    """Answers to requests for task specs, from the cache."""

    def __init__(self, cache: TemplateCache, waiters: Waiters, *, longest_wait_seconds: float) -> None:
        self._cache = cache
        self._waiters = waiters
        self._longest_wait_seconds = longest_wait_seconds
        self._answers = Answers()
        # Its own threads: while the store does not answer, reports may occupy all others.
        self._threads = OwnThreads(ENCODING_THREADS)

    async def answer(
        self, knows: str, after: int | None, wait_seconds: float, store: str, *, full: bool = False
    ) -> Encoded:
        """The answer to `GET /v1/specs`. `knows`: the fields that the caller names in the header `Penstock-Knows`."""
        asked = Asked(after, KNOWS_LEVELS in knows, KNOWS_DIGESTS in knows)
        if full or after is None:
            return await self.full(asked, -1 if after is None else after, store)
        return await self.delta(asked, wait_seconds, store)

    async def full(self, asked: Asked, after: int = -1, store: str = "") -> Encoded:
        """A full snapshot that is no older than commit `after` of the incarnation `store`.

        Raises Unavailable before the store was first read, and when this process cannot read so new a commit.
        """
        return await self._encoded(await self._at_least(after, store), asked._replace(after=None))

    async def delta(self, asked: Asked, wait_seconds: float, store: str = "") -> Encoded:
        """What was committed above `asked.after`; waits up to `wait_seconds` for a commit.

        A full snapshot when the store has another incarnation than `store`. Raises Unavailable as `full` does: no
        answer is older than what the caller has acted on.
        """
        after = -1 if asked.after is None else asked.after
        known = await self._at_least(after, store)
        if not _is_of(known, store):
            return await self.full(asked)
        with metrics.waiting.track_inprogress():
            seconds = min(wait_seconds, self._longest_wait_seconds)
            await self._waiters.wait(lambda: self._is_news(after, store), seconds)
        known = self._known()
        return await self._encoded(known, asked if _is_of(known, store) else asked._replace(after=None))

    def readiness(self) -> dict[str, Any]:
        """For `/readyz`."""
        return {"commit_number": self._known().commit_number, "age_seconds": round(self._cache.age_seconds(), 3)}

    async def _encoded(self, templates: Templates, asked: Asked) -> Encoded:
        ready = self._answers.ready(templates, asked)
        return ready if ready is not None else await self._threads.run(self._answers.encode, templates, asked)

    def _is_news(self, after: int, store: str) -> bool:
        known = self._known()
        return known.commit_number > after or not _is_of(known, store)

    async def _at_least(self, after: int, store: str) -> Templates:
        """Templates no older than commit `after`, or of another incarnation of the store than the caller's.

        The caller may know a newer commit, or another incarnation, from another Task Service: then the store is read
        once more, by a read that begins after the request. Raises Unavailable when it cannot be, and when the store
        itself is behind the caller: it then was restored, and nobody has said so.
        """
        known = self._known()
        if after > known.commit_number or not _is_of(known, store):
            known = await self._read_again(after)
        if after > known.commit_number and _is_of(known, store):
            raise Unavailable(
                f"the job store is at commit {known.commit_number}, the caller at {after}: after a restore or a"
                " fail-over that lost commits, run `penstock restored`"
            )
        return known

    async def _read_again(self, after: int) -> Templates:
        begun = self._cache.begun
        self._cache.wake()
        if not await self._waiters.wait(lambda: self._cache.reads > begun, CATCH_UP_SECONDS):
            raise Unavailable(f"the job store cannot be read; it was last read before commit {after}")
        return self._known()

    def _known(self) -> Templates:
        if self._cache.templates is None:
            raise Unavailable("the job store has not been read yet")
        return self._cache.templates


def _is_of(known: Templates, store: str) -> bool:
    """Whether commit numbers of the caller's incarnation of the store and of the known one can be compared."""
    return not store or not known.store or store == known.store


def build_app(
    engine: Engine,
    cache: TemplateCache,
    waiters: Waiters,
    *,
    longest_wait_seconds: float,
    identity: ProcessIdentity,
    open_metrics: bool = False,
) -> FastAPI:
    """`GET /v1/specs`, reports, leases and the calls that every service has."""
    specs = SpecAnswers(cache, waiters, longest_wait_seconds=longest_wait_seconds)
    quiet = BatchDesk(partial(_all_stored, engine), gather_seconds=GATHER_SECONDS)
    leases = LeaseDesk(partial(renew_all, engine), partial(answer_one, engine))
    app = create_internal_app("task_service", ready=specs.readiness, identity=identity, open_metrics=open_metrics)
    at_end(app, lambda: waiters.end())

    @app.get("/v1/specs", response_model=Snapshot)
    async def get_specs(
        after: Annotated[int | None, Query(ge=-1, le=2**63 - 1)] = None,
        wait_seconds: Annotated[float, Query(ge=0, le=3600)] = 0.0,
        store: Annotated[str, Query(max_length=64)] = "",
        full: bool = False,
        if_none_match: Annotated[str | None, Header()] = None,
        accept_encoding: Annotated[str, Header()] = "",
        penstock_knows: Annotated[str, Header(alias=KNOWS_HEADER)] = "",
    ) -> Response:
        encoded = await specs.answer(penstock_knows, after, wait_seconds, store, full=full)
        return _response(encoded, if_none_match, accept_encoding, cache.age_seconds())

    @app.post("/v1/reports", status_code=204)
    def post_reports(
        batch: TaskReportBatch,
        response: Response,
        caller: KnownCaller,
        number: Annotated[int | None, Query(ge=1, le=2**63 - 1)] = None,
    ) -> None:
        """The report is stored when the answer is 204."""
        require_container(caller, batch.container)
        try:
            with transaction(engine) as connection:
                save_report(connection, batch, number)
        except Conflict:
            metrics.reports.labels("refused").inc()
            raise
        if number is not None:
            response.headers[REPORT_NUMBER_HEADER] = str(number)
        metrics.reports.labels("full").inc()

    async def post_changes(changes: TaskReportChanges, caller: Caller) -> ChangesAnswer:
        """The changes are stored when the answer says so."""
        require_container(caller, changes.container)
        stored = not changes.has_news and await quiet.answer(changes, may_wait=changes.may_wait)
        if not stored:
            stored = await run_in_threadpool(_stored, engine, changes)
        outcome = "changes" if changes.has_news else "nothing_new"
        metrics.reports.labels(outcome if stored else "full_wanted").inc()
        return ChangesAnswer(stored=stored)

    async def post_leases(request: LeaseRequest, caller: Caller) -> LeaseAnswer:
        """Renews the lease row of a container that no Shard Manager answers."""
        require_container(caller, request.container)
        return await leases.answer(request)

    add_direct_call(app, "/v1/reports/changes", TaskReportChanges, post_changes)
    add_direct_call(app, "/v1/leases", LeaseRequest, post_leases)
    return app


def _stored(engine: Engine, changes: TaskReportChanges) -> bool:
    with transaction(engine) as connection:
        return save_changes(connection, changes)


def _all_stored(engine: Engine, told: Sequence[TaskReportChanges]) -> list[bool]:
    with transaction(engine) as connection:
        return save_quiet(connection, told)


def _response(encoded: Encoded, if_none_match: str | None, accept_encoding: str, age_seconds: float) -> Response:
    headers = {"ETag": encoded.etag, AGE_HEADER: f"{age_seconds:.3f}", "Vary": "Accept-Encoding"}
    tags = [tag.strip() for tag in (if_none_match or "").split(",")]
    if encoded.etag in tags:
        return Response(status_code=304, headers=headers)
    if "gzip" not in accept_encoding:
        return Response(encoded.body, headers=headers, media_type="application/json")
    headers["Content-Encoding"] = "gzip"
    return Response(encoded.compressed, headers=headers, media_type="application/json")
