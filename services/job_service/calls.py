"""A call that writes: its transactions, Spark's answer, and the Idempotency-Key, which keeps the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fastapi.concurrency import run_in_threadpool
from sqlalchemy import Connection, Engine

from penstock.config.model import JobConfig
from penstock.config.problems import refusal
from penstock.control.clock import Clock
from penstock.control.errors import InvalidConfig, UserError
from penstock.control.logs import logger
from penstock.model.jobs import Action
from penstock.store.engine import transaction
from penstock.wire.desk import BatchDesk
from penstock.wire.jobs import Written
from services.job_service.access import Principal
from services.job_service.analyses import Analyses, MustAsk, Question
from services.job_service.answers import Answer, Verified, answer
from services.job_service.groups import may_share
from services.job_service.store import idempotency
from services.job_service.writer import Asked, Outcome, Vanished, write_many
from services.job_service.writes import Write

log = logger(__name__)

_MOST_ATTEMPTS = 3
_MOST_QUESTIONS = 2
Shared = BatchDesk[Asked, Outcome | None]
"""Takes the writes of callers that wait at a time together (`shared.py`)."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call that writes: who calls, its Idempotency-Key, and with one `fingerprint`, a digest of the whole call.

    `began`: when, by the monotonic clock. `path_roots`: what writes let jobs read and write is below these.
    """

    engine: Engine
    clock: Clock
    principal: Principal
    key: str | None
    fingerprint: str
    analyses: Analyses
    began: float
    path_roots: Sequence[str]
    shared: Shared

    @property
    def author(self) -> str:
        """The name for the history."""
        return self.principal.name

    def elapsed(self) -> float:
        """How long ago the call began, in seconds."""
        return self.clock.monotonic() - self.began

    def run(self, work: Callable[[Connection], Answer]) -> Answer:
        """Does `work` in a transaction of its own, and only once for each key.

        Raises what `work` raises; then nothing was changed. Raises InvalidConfig (rule `idempotency_key`) when the key
        was used for another call.
        """
        for _ in range(_MOST_ATTEMPTS - 1):
            try:
                return self._run_once(work)
            except Vanished as gone:
                log.info("a write begins anew", field=gone.field, rule=gone.rule)
        return self._run_once(work)

    def _run_once(self, work: Callable[[Connection], Answer]) -> Answer:
        with transaction(self.engine) as connection:
            if self.key is None:
                return work(connection)
            kept = idempotency.begin(connection, self.author, self.key, self.fingerprint)
            if kept is not None:
                return _repeat(kept, self.fingerprint)
            done = work(connection)
            idempotency.finish(
                connection, self.author, self.key, status=done.status, headers=done.headers, body=done.body
            )
            return done

    def write(self, status: int, write: Write) -> Answer:
        """Does one write. Raises the UserError that refuses it."""
        return self.run(lambda connection: answer(status, self.write_in(connection, write)))

    def write_verified(self, write: Write, *, verify: bool) -> Answer:
        """Does one write of a layer once Spark's analysis has nothing against it. Raises the UserError that refuses
        it."""

        def work(connection: Connection, question: Question) -> Answer:
            done = self.write_in(connection, write, question)
            status = 201 if done.action == Action.CREATE else 200
            return answer(status, done, verified=question.verified)

        return self.run_verified(work, verify=verify)

    async def write_layer(self, write: Write, *, verify: bool) -> Answer:
        """As `write_verified`, in one transaction with the writes of other callers where that makes no difference."""
        if may_share(write, has_key=self.key is not None):
            outcome = await self.shared.answer(Asked(write, self.began))
            if isinstance(outcome, UserError):
                raise outcome
            if outcome is not None:
                return answer(200, outcome)
        return await run_in_threadpool(self.write_verified, write, verify=verify)

    def run_verified(self, work: Callable[[Connection, Question], Answer], *, verify: bool) -> Answer:
        """As `run`, of work that does one write and passes the question on to it.

        Whether Spark has to be asked follows from what is stored, so the write's transaction finds it out. Nothing may
        hold that up: it ends without a change, a container is asked, and the work is done in another one. When other
        writes have changed the job meanwhile, the question is asked anew, and after that the write goes on unverified,
        as it does without a host that is ready. Raises InvalidConfig with what the analysis found.
        """
        question = Question(verify)
        for left in reversed(range(_MOST_QUESTIONS + 1)):
            try:
                return self.run(lambda connection: work(connection, question))
            except MustAsk as unasked:
                seconds = question.seconds_left(self.clock.monotonic())
                if left and seconds:
                    question.answer(unasked.config, self._asked(unasked.job, unasked.config, seconds))
                else:
                    question.give_up()
        return self.run(lambda connection: work(connection, question))

    def _asked(self, job: str, config: JobConfig, wait_seconds: float) -> Verified:
        verdict = self.analyses.ask_for_write(job, config, wait_seconds)
        if verdict.report is not None and verdict.report.problems:
            raise refusal(verdict.report.problems)
        return Verified(verdict.verified, verdict.unverified_why, verdict.notes)

    def write_in(self, connection: Connection, write: Write, question: Question | None = None) -> Written:
        """Does one write in the transaction of `run`, or of `run_verified` with its question. Raises the UserError that
        refuses it."""
        (outcome,) = write_many(connection, [write], self.clock, self.began, self.path_roots, question)
        if isinstance(outcome, UserError):
            raise outcome
        return outcome


def _repeat(kept: idempotency.Kept, fingerprint: str) -> Answer:
    if kept.fingerprint != fingerprint:
        raise InvalidConfig(
            "this Idempotency-Key was used for another call: take a new key",
            field="Idempotency-Key",
            rule="idempotency_key",
        )
    return Answer(kept.status, kept.body, {**kept.headers, "Idempotency-Replayed": "true"})
