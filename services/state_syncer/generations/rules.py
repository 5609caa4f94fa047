"""Which old generations may go, and who deletes their files: one decision from what is noted and what is seen. Pure.

A number is never used twice, and a job goes back to none that was committed before another: so what may go once may go
at any later time, however late a container does what it was asked. It is decided anew in each round all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.tasks.host_task import POLICIES, REMOVE_GENERATION
from penstock.tasks.redistribution import GenerationRemoval
from services.state_syncer.host_tasks.next_attempt import AttemptDecision, Candidates, HostTaskStep, next_attempt
from services.state_syncer.host_tasks.outcomes import AttemptKey, Done, Outcome

# A container that was lost at a redistribution may still write for a minute, until its lease has run out.
ATTEMPT_SECONDS = 3600.0


class UnusedGeneration(NamedTuple):
    """A generation that is not used, and what its end depends on.

    `container` was asked to delete it, at the `attempts`-th time. `attempted`: it was never committed. `running`: the
    generation that the job runs, None without any. `forgotten`: the job is. `former`: a deleted job of the same name
    had it, and the present one never did. `planned`: the job has a recorded plan. `copied`: a savepoint of it is to be
    taken. `newer`: how many that were committed and came after it are unused too.
    """

    job: str
    generation: int
    container: str | None
    attempts: int
    attempted: bool
    running: int | None
    forgotten: bool
    former: bool
    planned: bool
    copied: bool
    unused_seconds: float
    newer: int


@dataclass(frozen=True, slots=True)
class Retention:
    """Of what was committed the newest `count` that a job left are kept, and all for `seconds`. At most `at_once` are
    being deleted."""

    count: int
    seconds: float
    at_once: int = 2


@dataclass(frozen=True, slots=True)
class Keep:
    """It stays, for now."""


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
    is_enough = seen.former or seen.newer >= retention.count
    return left and is_enough and seen.unused_seconds >= retention.seconds


def key_of(seen: UnusedGeneration) -> AttemptKey:
    """The attempt that a deletion is at. Losses count as failures."""
    return AttemptKey(seen.job, REMOVE_GENERATION, seen.generation, seen.container, seen.attempts)


def request_of(seen: UnusedGeneration) -> GenerationRemoval:
    """What the container is asked."""
    return GenerationRemoval(job=seen.job, generation=seen.generation, forgotten=seen.forgotten or seen.former)


def decide(
    seen: UnusedGeneration, retention: Retention, candidates: Candidates, outcome: Outcome
) -> AttemptDecision | Keep:
    """The next step. `outcome` is that of `key_of(seen)`."""
    if seen.container is not None and isinstance(outcome, Done):
        return Done()
    if not may_go(seen, retention):
        return Keep()
    task = HostTaskStep(key_of(seen), seen.attempts - (seen.container is not None))
    policy = replace(POLICIES[REMOVE_GENERATION], at_once=retention.at_once)
    return next_attempt(task, outcome, candidates, policy)
