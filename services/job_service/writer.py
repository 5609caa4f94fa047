"""The one way to write: lock, decide and commit in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from penstock.config.basis import merge_basis
from penstock.control.clock import Clock
from penstock.control.errors import Conflict, NotFound, UserError
from penstock.control.logs import logger
from penstock.model.jobs import Action, Change, Committed, StoredJob
from penstock.wire.jobs import Written
from services.job_service.analysed import may_matter, must_be_asked
from services.job_service.analyses import Question
from services.job_service.answers import nothing_done, written
from services.job_service.flows import Flow
from services.job_service.layer_expiry import again
from services.job_service.path_rules import require_paths
from services.job_service.store import expected, flows, history, late_producers, packages, repeats, secrets
from services.job_service.store import jobs as job_rows
from services.job_service.store import layers as layer_rows
from services.job_service.store.expected import Found
from services.job_service.writes import Layers, Write, batches, decide, unknown_job
from services.job_service.writes import expected as merged_of

log = logger(__name__)

_MOST_ROUNDS = 10
"""So often the writes of a call are judged again because some of them were refused. Others wait meanwhile."""
Outcome = Written | UserError


class Asked(NamedTuple):
    """A write of a layer that a caller waits for. `began`: when its call began, by the monotonic clock."""

    write: Write
    began: float


@dataclass(frozen=True, slots=True)
class _Terms:
    """How the writes of one transaction are done. `elapsed`: seconds since the call of the write at a position began.

    `waits`: for locks that other transactions have. `question`: see `write_many`.
    """

    clock: Clock
    elapsed: Callable[[int], float]
    path_roots: Sequence[str]
    question: Question | None = None
    waits: bool = True


class Vanished(Conflict):
    """A job that a write creates anew was there when its row was claimed, and was forgotten before the row was locked.
    Nothing is written. In a new transaction the name is free."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"each time that the job {name} was to be made, the deletion of one of this name ended: repeat the call",
            field="job",
            rule="deleting",
        )


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
    terms = _Terms(clock, lambda _: clock.monotonic() - began, path_roots, question)
    if created := [write.job for write in writes if write.action is Action.CREATE]:
        layer_rows.share(connection)
        expected.claim(connection, created)
    found = expected.hold(connection, [write.job for write in writes])
    if gone := sorted(set(created) - found.jobs.keys()):
        raise Vanished(gone[0])
    outcomes: dict[int, Outcome] = {}
    turns = batches(writes)
    if len(turns) > 1:  # the first turn locks the counter
        packages.share(connection)
        flows.lock(connection)
    for batch in turns:
        outcomes |= _write_batch(connection, {position: writes[position] for position in batch}, found, terms)
        if len(outcomes) < len(writes):
            found = _updated(found, expected.read_again(connection, [writes[position].job for position in batch]))
    if created and any(isinstance(outcome, UserError) for outcome in outcomes.values()):
        expected.unclaim(connection, created)
    return [outcomes[position] for position in range(len(writes))]


def write_shared(
    connection: Connection, asked: Sequence[Asked], clock: Clock, path_roots: Sequence[str]
) -> list[Outcome | None]:
    """Does writes of layers that several callers ask for, as `write_many` does each of them. No two are to one job.

    None for those that this transaction would have to wait with, for another one or for Spark, and for those of jobs
    that are not found: each of them needs a transaction of its own. Nothing of them is done.
    """
    terms = _Terms(clock, lambda at: clock.monotonic() - asked[at].began, path_roots, waits=False)
    found = expected.hold_free(connection, [each.write.job for each in asked])
    held = {at: each.write for at, each in enumerate(asked) if each.write.job in found.jobs}
    outcomes = _write_batch(connection, held, found, terms) if held else {}
    return [outcomes.get(at) for at in range(len(asked))]


def _write_batch(
    connection: Connection, writes: Mapping[int, Write], found: Found, terms: _Terms
) -> dict[int, Outcome]:
    """Outcomes by position. No two writes of a batch are to the same job. Only where the transaction waits for nobody
    some have no outcome."""
    outcomes, changes = _decided_batch(connection, writes, found, terms)
    moved = flows.moved(changes, found.flows)
    meeting = {*moved, *repeats.at_places(changes, found.jobs, found.layers)}
    if not terms.waits:
        changes = _without(changes, _waited_for(connection, changes, meeting))
    outcomes |= secrets.take(connection, changes)
    changes = _without(changes, outcomes)
    if terms.question is not None:
        for change in changes.values():
            _require_answer(terms.question, change, found.jobs[change.job], found.layers)
    outcomes |= packages.take(connection, changes, terms.elapsed)
    changes = _without(changes, outcomes)
    if meeting & changes.keys():
        flows.lock(connection)
    repeating = [at for at in changes if writes[at].allow_repeats]
    judged = _judged(connection, changes, moved, repeating, found, meeting)
    outcomes |= judged.refused
    verdict, changes = judged.verdict, _without(changes, outcomes)
    flows.keep(connection, [flow for at, flow in moved.items() if at in changes])
    repeats.note(connection, changes, verdict, found.jobs, found.layers)
    committed = expected.commit(connection, list(changes.values()), merge_basis(found.layers))
    for position, done in zip(changes, committed, strict=True):
        _log(done)
        outcomes[position] = written(done, verdict.notes.get(position, []))
    released = [done for done in committed if done.change.action is Action.RELEASE]
    job_rows.release(connection, {done.change.job: done.revision for done in released})
    return outcomes


class _Judged(NamedTuple):
    """Why some changes must not be, by position, and what `repeats` says of the others."""

    refused: dict[int, UserError]
    verdict: repeats.Verdict


def _judged(
    connection: Connection,
    changes: Mapping[int, Change],
    moved: Mapping[int, Flow],
    repeating: Collection[int],
    found: Found,
    meeting: Collection[int],
) -> _Judged:
    """Judges changes by what they mean for other jobs, among them those of the other changes.

    When one is refused, the rest is judged again without it: it may have been all right only beside that one. So what
    is done was judged as a whole. A refusal stands, also where it was because of a change that is refused later. After
    some rounds all are refused that may depend on others.
    """
    refused: dict[int, UserError] = {}
    for _ in range(_MOST_ROUNDS):
        left = _without(changes, refused)
        verdict = repeats.judge(connection, left, repeating, found.jobs, found.layers)
        fresh = dict(verdict.refused)
        fresh |= flows.refused(connection, _without(left, fresh), moved)
        if fresh:  # A field that is wrong is told rather than what `allow_repeats` would accept.
            fresh |= _among(fresh, late_producers.refused(connection, left))
        fresh |= late_producers.refused(connection, _without(left, fresh))
        refused |= fresh
        if not fresh:
            return _Judged(refused, verdict)
    left = _without(changes, refused)
    met = [at for at in left if at in meeting or late_producers.is_asked(left[at])]
    return _Judged(refused | {at: _undecided(left[at]) for at in met}, repeats.NOTHING)


def _decided_batch(
    connection: Connection, writes: Mapping[int, Write], found: Found, terms: _Terms
) -> tuple[dict[int, Outcome], dict[int, Change]]:
    """The outcomes of the writes that are refused, or have nothing to do, and the changes that the others make."""
    now = terms.clock.now()
    outcomes: dict[int, Outcome] = {}
    changes: dict[int, Change] = {}
    blocked = job_rows.blocked(connection, [each.job for each in writes.values() if each.action is Action.RELEASE])
    for position, write in _with_versions(connection, writes, now).items():
        try:
            change = _decided(write, found.jobs, found.layers, now, blocked)
            _require_allowed(change, found.jobs, found.layers, terms.path_roots)
        except UserError as error:
            outcomes[position] = error
            continue
        if change is None:
            outcomes[position] = nothing_done(found.jobs[writes[position].job])
        else:
            changes[position] = change
    return outcomes, changes


def _waited_for(connection: Connection, changes: Mapping[int, Change], meeting: Collection[int]) -> set[int]:
    """The changes, given by position, that would have to wait for another transaction, or for Spark. What the others
    need is theirs until the transaction ends."""
    waited_for = {at for at, change in changes.items() if may_matter(change.old or {}, change.new or {})}
    waited_for.update(meeting)
    waited_for |= secrets.busy(connection, _without(changes, waited_for))
    return waited_for | packages.busy(connection, _without(changes, waited_for))


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


def _undecided(change: Change) -> Conflict:
    return Conflict(
        f"{change.job}: so many other writes of this call are refused, one because of another, that this one was not "
        "decided: repeat the call without those",
        field="job",
        rule="refused_beside",
    )


def _among(positions: Collection[int], found: Mapping[int, UserError]) -> dict[int, UserError]:
    return {position: error for position, error in found.items() if position in positions}


def _without(changes: Mapping[int, Change], refused: Collection[int]) -> dict[int, Change]:
    return {position: change for position, change in changes.items() if position not in refused}


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
