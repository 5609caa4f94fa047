"""The one way to write: lock, decide and commit in one transaction. The Idempotency-Key keeps the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Engine

from penstock.config.basis import merge_basis
from penstock.control.clock import Clock
from penstock.control.errors import InvalidConfig, UserError
from penstock.control.logs import logger
from penstock.model.jobs import Change, Committed, StoredJob
from penstock.store.engine import transaction
from penstock.wire.jobs import Written
from services.job_service.access import Principal
from services.job_service.answers import Answer, nothing_done, written
from services.job_service.store import expected, idempotency
from services.job_service.store.layers import all_layers
from services.job_service.writes import Verb, Write, batches, decide

log = logger(__name__)
Outcome = Written | UserError


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller and the Idempotency-Key of a call; `fingerprint` is a digest of the whole call."""

    principal: Principal
    key: str | None
    fingerprint: str


class Writer:
    """Writes on behalf of callers."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def run(self, caller: Caller, work: Callable[[Connection], Answer]) -> Answer:
        """Does `work` in a transaction of its own, and only once for each key.

        Raises what `work` raises; then nothing was changed. Raises InvalidConfig (rule `idempotency_key`) when the key
        was used for another call.
        """
        with transaction(self._engine) as connection:
            if caller.key is None:
                return work(connection)
            name = caller.principal.name
            kept = idempotency.begin(connection, name, caller.key, caller.fingerprint)
            if kept is not None:
                return _repeat(kept, caller.fingerprint)
            answer = work(connection)
            idempotency.finish(
                connection, name, caller.key, status=answer.status, headers=answer.headers, body=answer.body
            )
            return answer

    def one(self, connection: Connection, write: Write) -> Written:
        """Does one write. Raises the UserError that refuses it."""
        (outcome,) = self.many(connection, [write])
        if isinstance(outcome, UserError):
            raise outcome
        return outcome

    def many(self, connection: Connection, writes: Sequence[Write]) -> list[Outcome]:
        """Does many writes, each by itself: a refused write changes nothing, and the others are done.

        All jobs are locked before the first change, since the revision counter must be locked last.
        """
        names = [write.job for write in writes]
        expected.claim(connection, [write.job for write in writes if write.verb is Verb.PUT_JOB])
        jobs = expected.lock(connection, names)
        outcomes: dict[int, Outcome] = {}
        for batch in batches(writes):
            outcomes |= self._batch(connection, batch, writes, jobs)
            if len(outcomes) < len(writes):
                jobs |= expected.read(connection, [writes[position].job for position in batch])
        if any(isinstance(outcome, UserError) for outcome in outcomes.values()):
            expected.unclaim(connection, names)
        return [outcomes[position] for position in range(len(writes))]

    def _batch(
        self, connection: Connection, batch: Sequence[int], writes: Sequence[Write], jobs: dict[str, StoredJob]
    ) -> dict[int, Outcome]:
        """Outcomes by position. No two writes of a batch are to the same job."""
        layers, now = all_layers(connection), self._clock.now()
        outcomes: dict[int, Outcome] = {}
        changes: dict[int, Change] = {}
        for position in batch:
            write = writes[position]
            try:
                change = decide(write, jobs.get(write.job), layers, now)
            except UserError as error:
                outcomes[position] = error
                continue
            if change is None:
                outcomes[position] = nothing_done(jobs[write.job])
            else:
                changes[position] = change
        committed = expected.commit(connection, list(changes.values()), merge_basis(layers))
        for position, done in zip(changes, committed, strict=True):
            _log(done)
            outcomes[position] = written(done)
        return outcomes


def _repeat(kept: idempotency.Kept, fingerprint: str) -> Answer:
    if kept.fingerprint != fingerprint:
        raise InvalidConfig(
            "this Idempotency-Key was used for another call: take a new key",
            field="Idempotency-Key",
            rule="idempotency_key",
        )
    return Answer(kept.status, kept.body, {**kept.headers, "Idempotency-Replayed": "true"})


def _log(done: Committed) -> None:
    change = done.change
    log.info(
        "expected configuration written",
        job=change.job,
        revision=done.revision,
        action=change.action,
        layer=change.layer,
        version=done.version,
        author=change.author,
    )
