"""The one way to write: lock, decide and commit in one transaction. The Idempotency-Key keeps the answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection, Engine

from penstock.config.basis import merge_basis
from penstock.config.model import JobConfig
from penstock.config.problems import refusal
from penstock.control.clock import Clock
from penstock.control.errors import Conflict, InvalidConfig, NotFound, UserError
from penstock.control.logs import logger
from penstock.model.jobs import Action, Change, Committed, StoredJob
from penstock.store.engine import transaction
from penstock.wire.jobs import Written
from services.job_service.access import Principal
from services.job_service.analyses import WRITE_SECONDS, Analyses, MustAsk, Question, may_matter, must_be_asked
from services.job_service.answers import Answer, Verified, answer, nothing_done, written
from services.job_service.layer_expiry import again
from services.job_service.path_rules import require_paths
from services.job_service.store import expected, flows, history, idempotency, packages, secrets
from services.job_service.store import jobs as job_rows
from services.job_service.store import layers as layer_rows
from services.job_service.store.expected import Found
from services.job_service.writes import Layers, Write, batches, decide, unknown_job
from services.job_service.writes import expected as merged_of

log = logger(__name__)

_MOST_ATTEMPTS = 3
_MOST_QUESTIONS = 2
Outcome = Written | UserError


class Vanished(Conflict):
    """A job that a write creates anew was there when its row was claimed, and was forgotten before the row was locked.
    Nothing is written. In a new transaction the name is free."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"each time that the job {name} was to be made, the deletion of one of this name ended: repeat the call",
            field="job",
            rule="deleting",
        )


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
                if left:
                    question.answer(unasked.config, self._asked(unasked.job, unasked.config))
                else:
                    question.give_up()
        return self.run(lambda connection: work(connection, question))

    def _asked(self, job: str, config: JobConfig) -> Verified:
        verdict = self.analyses.ask(job, config, wait_seconds=WRITE_SECONDS, start_host=False)
        if verdict.report is not None and verdict.report.problems:
            raise refusal(verdict.report.problems)
        return Verified(verdict.verified, verdict.unverified_why)

    def write_in(self, connection: Connection, write: Write, question: Question | None = None) -> Written:
        """Does one write in the transaction of `run`, or of `run_verified` with its question. Raises the UserError that
        refuses it."""
        (outcome,) = write_many(connection, [write], self.clock, self.began, self.path_roots, question)
        if isinstance(outcome, UserError):
            raise outcome
        return outcome


def write_many(
    connection: Connection,
    writes: Sequence[Write],
    clock: Clock,
    began: float,
    path_roots: Sequence[str],
    question: Question | None = None,
) -> list[Outcome]:
    """Does many writes, each by itself: a refused write changes nothing, and the others are done. `began`: when they
    were asked for, by the monotonic clock. `path_roots`: as in `Call`. `question`: of the only write; without it Spark
    is not asked.

    All jobs are locked before the first change, since the revision counter must be locked last. The time of the writes
    is read after that: a write that waited for its turn meets a layer that has expired meanwhile as expired. Raises
    Vanished.
    """
    names = [write.job for write in writes]
    if created := [write.job for write in writes if write.action is Action.CREATE]:
        layer_rows.share(connection)
        expected.claim(connection, created)
    found = expected.hold(connection, names)
    if gone := sorted(set(created) - found.jobs.keys()):
        raise Vanished(gone[0])
    outcomes: dict[int, Outcome] = {}
    turns = batches(writes)
    if len(turns) > 1:  # the first turn locks the counter
        packages.share(connection)
        flows.lock(connection)
    for batch in turns:
        part = {position: writes[position] for position in batch}
        outcomes |= _write_batch(connection, part, found, clock, began, path_roots, question)
        if len(outcomes) < len(writes):
            found = _updated(found, expected.read_again(connection, [writes[position].job for position in batch]))
    if any(isinstance(outcome, UserError) for outcome in outcomes.values()):
        expected.unclaim(connection, names)
    return [outcomes[position] for position in range(len(writes))]


def _write_batch(
    connection: Connection,
    writes: Mapping[int, Write],
    found: Found,
    clock: Clock,
    began: float,
    path_roots: Sequence[str],
    question: Question | None,
) -> dict[int, Outcome]:
    """Outcomes by position. No two writes of a batch are to the same job."""
    (jobs, layers, stored_flows), now = found, clock.now()
    outcomes: dict[int, Outcome] = {}
    changes: dict[int, Change] = {}
    blocked = job_rows.blocked(connection, [each.job for each in writes.values() if each.action is Action.RELEASE])
    for position, write in _with_versions(connection, writes, now).items():
        try:
            change = _decided(write, jobs, layers, now, blocked)
            _require_allowed(change, jobs, layers, path_roots)
        except UserError as error:
            outcomes[position] = error
            continue
        if change is None:
            outcomes[position] = nothing_done(jobs[writes[position].job])
        else:
            changes[position] = change
    outcomes |= secrets.take(connection, changes)
    changes = _without(changes, outcomes)
    if question is not None:
        for change in changes.values():
            _require_answer(question, change, jobs[change.job], layers)
    outcomes |= packages.take(connection, changes, lambda: clock.monotonic() - began)
    changes = _without(changes, outcomes)
    outcomes |= flows.take(connection, changes, stored_flows)
    changes = _without(changes, outcomes)
    committed = expected.commit(connection, list(changes.values()), merge_basis(layers))
    for position, done in zip(changes, committed, strict=True):
        _log(done)
        outcomes[position] = written(done)
    released = [done for done in committed if done.change.action is Action.RELEASE]
    job_rows.release(connection, {done.change.job: done.revision for done in released})
    return outcomes


def _updated(found: Found, later: Found) -> Found:
    return Found({**found.jobs, **later.jobs}, later.layers, {**found.flows, **later.flows})


def _require_allowed(
    change: Change | None, jobs: Mapping[str, StoredJob], layers: Layers, path_roots: Sequence[str]
) -> None:
    """Raises InvalidConfig when a change gives its job a path below none of the roots."""
    if change is not None and change.config is not None:
        require_paths(jobs.get(change.job, unknown_job(change.job)), layers, change.config, path_roots)


def _require_answer(question: Question, change: Change, stored: StoredJob, layers: Layers) -> None:
    """Raises MustAsk when a container must be asked about the change before it is made."""
    if change.config is None or (stored.exists and not may_matter(change.old or {}, change.new or {})):
        return
    if not stored.exists or must_be_asked(merged_of(stored, layers), change.config):
        question.require_answer(change.job, change.config)


def _decided(
    write: Write | NotFound, jobs: Mapping[str, StoredJob], layers: Layers, now: datetime, blocked: Collection[str]
) -> Change | None:
    """As `decide`, and Conflict for a release of a job that is not `blocked`."""
    if isinstance(write, NotFound):
        raise write
    change = decide(write, jobs.get(write.job), layers, now)
    if change is not None and write.action is Action.RELEASE and write.job not in blocked:
        raise _nothing_to_release(write.job)
    return change


def _with_versions(connection: Connection, writes: Mapping[int, Write], now: datetime) -> dict[int, Write | NotFound]:
    """The writes by position, each revert with the content that it goes back to, or why it cannot. Without an expiry of
    its own it also has that version's end, as of `now`."""
    asked = {
        position: (write.job, write.layer, write.version)
        for position, write in writes.items()
        if write.action is Action.REVERT and write.version
    }
    versions = history.at_versions(connection, asked)
    prepared: dict[int, Write | NotFound] = dict(writes)
    for position in asked:
        write, version = writes[position], versions.get(position)
        if version is None:
            prepared[position] = _no_version(write)
            continue
        expiry = write.expiry or again(version.expires_at, version.set_at, now)
        prepared[position] = replace(write, config=version.new, expiry=expiry)
    return prepared


def _no_version(write: Write) -> NotFound:
    return NotFound(
        f"the layer {write.layer} of {write.job} had no version {write.version}, or it is forgotten",
        field="version",
        rule="known",
    )


def _nothing_to_release(job: str) -> Conflict:
    return Conflict(
        f"the job {job} is neither quarantined nor failed: there is nothing to release",
        field="job",
        rule="quarantined",
    )


def _without(changes: Mapping[int, Change], refused: Collection[int]) -> dict[int, Change]:
    return {position: change for position, change in changes.items() if position not in refused}


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
