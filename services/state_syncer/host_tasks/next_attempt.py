"""Who carries out a host task, and what follows from the outcome of an attempt. Pure.

All kinds go through `next_attempt`; what differs between kinds is in `penstock.tasks.host_task.POLICIES`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from penstock.tasks.host_task import Policy
from penstock.tasks.selectors import meets
from services.state_syncer.decide.effects import backoff_seconds
from services.state_syncer.host_tasks.outcomes import AttemptKey, Done, Failed, Lost, Outcome


class LiveContainer(NamedTuple):
    """Where a container is reached, and what it offers (`penstock.tasks.selectors`)."""

    url: str
    offers: frozenset[str]


class Candidates:
    """The live containers of one moment. `asked`: the keys of the tasks that containers already have.

    `load`: how many of these each container has; `under_way`: how many there are of each kind.
    """

    def __init__(self, places: Mapping[str, LiveContainer], asked: Iterable[AttemptKey] = ()) -> None:
        self.places = places
        self.load: Counter[str] = Counter()
        self.under_way: Counter[str] = Counter()
        for key in asked:
            if key.container is not None:
                self.add(key.kind, key.container)

    def add(self, kind: str, container: str) -> None:
        """The container is asked for one more."""
        self.load[container] += 1
        self.under_way[kind] += 1

    def near(self, selector: str | None) -> list[str]:
        """Those that meet a job's selector, or all of them when none does."""
        return [name for name, place in self.places.items() if meets(place.offers, selector)] or list(self.places)


class HostTaskStep(NamedTuple):
    """A host task before its next step. `key.container` is None when no container was chosen.

    `attempts`: those that have ended, without the losses that `key` counts. `selector`: the containers that the job
    asks for. `avoid`: a container that is asked only if there is no other. `ran_on`: the containers that ran tasks of
    the job, whose hosts are warm.
    """

    key: AttemptKey
    attempts: int = 0
    selector: str | None = None
    avoid: str | None = None
    ran_on: Collection[str] = ()


# ---- decisions


@dataclass(frozen=True, slots=True)
class Assign:
    """Record this container; a later step asks it."""

    container: str


@dataclass(frozen=True, slots=True)
class NoContainer:
    """No container can be asked now, or as many tasks of the kind as allowed are under way."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the chosen container, or ask again how far it is."""

    container: str


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempt is over, and another one may begin after `after_seconds`. `lost`: its container is lost."""

    why: str
    lost: bool = False
    after_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The attempt is over, and no other one begins. `lost`: too many containers were lost."""

    why: str
    lost: bool = False


AfterAttempt = Ask | Done | Retry | GiveUp
AttemptDecision = Assign | NoContainer | AfterAttempt


def next_attempt(task: HostTaskStep, outcome: Outcome, candidates: Candidates, policy: Policy) -> AttemptDecision:
    """The next step of a host task; `outcome` is that of the attempt `task.key`."""
    if task.key.container is None:
        return _assign(task, candidates, policy)
    return after_attempt(task, outcome, policy, container_lives=task.key.container in candidates.places)


def after_attempt(task: HostTaskStep, outcome: Outcome, policy: Policy, *, container_lives: bool) -> AfterAttempt:
    """The next step after an attempt. `container_lives`: by the store."""
    match outcome:
        case Done():
            return outcome
        case Failed(why):
            if policy.attempts is not None and task.attempts + 1 >= policy.attempts:
                return GiveUp(why)
            return Retry(why, after_seconds=_pause_seconds(task, policy))
        case Lost(why):
            return _after_loss(task, why, policy)
    container = str(task.key.container)
    return Ask(container) if container_lives else _after_loss(task, f"{container} is lost", policy)


def pick(task: HostTaskStep, candidates: Candidates) -> str | None:
    """The container for the next attempt; None without containers: the least busy one; of equally busy ones, one whose
    hosts ran the job. Each attempt takes another one, until all were tried.

    The store may list a container as live that does not answer, so no attempt insists on one container.
    """
    near = candidates.near(task.selector)
    others = [name for name in near if name != task.avoid] or near
    ordered = sorted(others, key=lambda name: (candidates.load[name], name not in task.ran_on, name))
    return ordered[task.attempts % len(ordered)] if ordered else None


def _assign(task: HostTaskStep, candidates: Candidates, policy: Policy) -> Assign | NoContainer:
    if policy.at_once is not None and candidates.under_way[task.key.kind] >= policy.at_once:
        return NoContainer()
    chosen = pick(task, candidates)
    if chosen is None:
        return NoContainer()
    candidates.add(task.key.kind, chosen)
    return Assign(chosen)


def _after_loss(task: HostTaskStep, why: str, policy: Policy) -> Retry | GiveUp:
    if policy.losses is not None and task.attempts + task.key.losses + 1 >= policy.losses:
        return GiveUp(why, lost=True)
    return Retry(why, lost=True, after_seconds=_pause_seconds(task, policy))


def _pause_seconds(task: HostTaskStep, policy: Policy) -> float:
    return backoff_seconds(task.attempts + 1) if policy.backs_off else 0.0
