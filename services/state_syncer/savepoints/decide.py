"""What to do about a savepoint that is to be taken or removed: one decision from its row and what is seen. Pure.

What is copied and who is asked are recorded before anybody is, so a new leader asks the same container the same thing.
A savepoint is of the generation that ran when it was first assigned; a rescale meanwhile leaves that generation alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.tasks.host_task import IMPORT_CHECKPOINT, POLICIES, REMOVE_SAVEPOINT, TAKE_SAVEPOINT
from penstock.tasks.savepoint import ImportRequest, SavepointRemoval, SavepointReport, SavepointRequest
from services.state_syncer.host_tasks.next_attempt import (
    AttemptDecision,
    Candidates,
    GiveUp,
    HostTaskStep,
    next_attempt,
)
from services.state_syncer.host_tasks.outcomes import AttemptKey, Done, Failed, Outcome
from services.state_syncer.host_tasks.plan_tasks import layout

if TYPE_CHECKING:
    from penstock.store.savepoints import SavepointRow

DELETING = "deleting"


def key_of(row: SavepointRow) -> AttemptKey:
    """The attempt that a row is at. Losses count as failures."""
    making = TAKE_SAVEPOINT if row.checkpoint is None else IMPORT_CHECKPOINT
    kind = REMOVE_SAVEPOINT if row.state == DELETING else making
    return AttemptKey(row.job, kind, row.number, row.container, row.attempts)


def in_turn(rows: Iterable[SavepointRow]) -> list[SavepointRow]:
    """Those that were tried least come first, the oldest of them at the front. So some that fail again and again do not
    keep the others waiting, however few may be under way at once."""
    return sorted(rows, key=lambda row: (row.attempts, row.number))


def decide(row: SavepointRow, candidates: Candidates, outcome: Outcome, *, has_checkpoint: bool) -> AttemptDecision:
    """The next step. `outcome` is that of `key_of(row)`; `has_checkpoint`: the job runs, and was started at some time.
    A take is given up after some attempts, failed or lost. Files that cannot be deleted are tried again for ever."""
    unbound = row.state != DELETING and row.container is None and row.generation is None
    if unbound and not has_checkpoint:
        return GiveUp("the job does not run and has no checkpoint")
    if row.state != DELETING and isinstance(outcome, Done) and not isinstance(outcome.report, SavepointReport):
        outcome = Failed("the container sent no report")
    key = key_of(row)
    task = HostTaskStep(key, row.attempts - (row.container is not None))
    match next_attempt(task, outcome, candidates, POLICIES[key.kind]):
        case GiveUp(why, lost=True):
            return GiveUp(
                f"given up after {row.attempts} attempts: the last container did not finish: {why}", lost=True
            )
        case decision:
            return decision


def request_of(
    row: SavepointRow, earlier: Sequence[str], state_bytes: int | None = None
) -> SavepointRequest | ImportRequest | SavepointRemoval:
    """What the container is asked. `state_bytes`: the size of the state as the job's tasks reported it.

    Raises ValueError (pydantic's, too) when the configuration cannot be read.
    """
    if row.state == DELETING:
        return SavepointRemoval(job=row.job, name=row.name, number=row.number)
    if row.generation is None or row.config is None:
        raise ValueError(f"savepoint {row.number} of {row.job} is bound to no generation")
    copied = layout(row.generation, row.config)
    if row.checkpoint is not None:
        return ImportRequest(job=row.job, name=row.name, number=row.number, layout=copied, checkpoint=row.checkpoint)
    return SavepointRequest(
        job=row.job,
        name=row.name,
        number=row.number,
        layout=copied,
        earlier=tuple(earlier),
        state_bytes=state_bytes,
    )
