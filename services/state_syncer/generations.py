"""Which old generations may go, and who deletes their files: one decision from what is noted and what is seen. Pure.

A number is never used twice, and a job goes back to none that was committed before another: so what may go once may go
at any later time, however late a container does what it was asked. It is decided anew in each round all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.store.records import UnusedGeneration
from penstock.tasks.redistribution import GenerationRemoval
from services.state_syncer.asks import AskKey
from services.state_syncer.progress import Done, Failed, Helper, Lost, Outcome
from services.state_syncer.savepoints import Again, Bind, Gone, Look, Nobody, next_helper

# A container that was lost at a redistribution may still write for a minute, until its lease has run out.
ATTEMPT_SECONDS = 3600.0
REMOVE_GENERATION = "remove_generation"


@dataclass(frozen=True, slots=True)
class Retention:
    """Of what was committed the newest `count` that a job left are kept, and all for `seconds`; `at_once`: so many are
    deleted at the same time."""

    count: int
    seconds: float
    at_once: int


@dataclass(frozen=True, slots=True)
class Keep:
    """It stays, for now."""


Decision = Bind | Look | Again | Gone | Nobody | Keep


def may_go(seen: UnusedGeneration, retention: Retention) -> bool:
    """Whether nobody needs a generation, now or ever, and it was kept long enough.

    While a job has a plan nothing of it goes, be it the plan's source, its target or neither. A job that neither runs
    nor is known to be forgotten is unknown.
    """
    if seen.planned or seen.copied:
        return False
    if seen.running is None:
        return seen.forgotten and seen.unused_seconds >= retention.seconds
    if seen.generation == seen.running:
        return False
    if seen.attempted:
        return seen.unused_seconds >= ATTEMPT_SECONDS
    left = seen.generation < seen.running
    return left and seen.newer >= retention.count and seen.unused_seconds >= retention.seconds


def key_of(seen: UnusedGeneration) -> AskKey:
    """The attempt that a deletion is at. Losses count as failures."""
    return AskKey(seen.job, REMOVE_GENERATION, seen.generation, seen.container, seen.attempts, 0)


def request_of(seen: UnusedGeneration) -> GenerationRemoval:
    """What the container is asked."""
    return GenerationRemoval(job=seen.job, generation=seen.generation, forgotten=seen.forgotten)


def decide(seen: UnusedGeneration, retention: Retention, helpers: Sequence[Helper], outcome: Outcome) -> Decision:
    """The next step. `outcome` is that of `key_of(seen)`; `helpers` are the live containers."""
    if seen.container is not None and isinstance(outcome, Done):
        return Gone()
    if not may_go(seen, retention):
        return Keep()
    if seen.container is None:
        chosen = next_helper(seen.attempts, helpers)
        return Nobody() if chosen is None else Bind(chosen, first=False)
    match outcome:
        case Failed(why) | Lost(why):
            return Again(why)
    if seen.container not in {helper.name for helper in helpers}:
        return Again(f"{seen.container} is lost")
    return Look(seen.container)
