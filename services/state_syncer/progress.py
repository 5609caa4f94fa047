"""A rescale as it is recorded in `sync_state.plan`, and what is known of its progress. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, NamedTuple, Protocol

from pydantic import Field

from penstock.config.model import Model
from penstock.tasks.redistribution import RedistributionReport, SavepointName
from penstock.tasks.savepoint import SavepointReport
from penstock.tasks.selectors import meets


class Step(StrEnum):
    """The steps that a plan is found in. `stop` and `commit` are one transaction each with the step after, before."""

    AWAIT_STOPPED = "await_stopped"
    REDISTRIBUTE = "redistribute"
    SEAL = "seal"


STEPS = ("stop", "await_stopped", "redistribute", "seal", "commit")


def step_number(step: Step) -> int:
    """The index of a step in `STEPS`."""
    return STEPS.index(step.value)


class Restore(Model):
    """A savepoint that a job is to go on from. `number` tells requests apart; `generation` and `config` are those of
    the job that it was taken of."""

    number: int
    savepoint: SavepointName
    generation: int
    config: dict[str, Any]


class Plan(Model):
    """The intent of a rescale, or of a restore, recorded before anything is done about it.

    `revision`, `restarts` and `config` are committed at the end, whole. `fields`: those that need the rescale.
    `generation`: the number of the attempt under way, taken for it alone; None before the first. `container`: who was
    asked. `losses`: containers that were lost in this step. `ran_on`: those that had tasks of the job when the plan
    began. `seconds`: of the steps that are over. `restore`: the source in place of the old generation.
    """

    kind: Literal["rescale"] = "rescale"
    steps: tuple[str, ...] = STEPS
    step: Step = Step.AWAIT_STOPPED
    revision: int
    restarts: int
    config: dict[str, Any]
    fields: tuple[str, ...]
    restore: Restore | None = None
    generation: int | None = None
    container: str | None = None
    losses: int = 0
    ran_on: tuple[str, ...] = ()
    begun_at: datetime
    step_at: datetime
    seconds: dict[str, float] = Field(default_factory=dict)

    def at(self, step: Step, now: datetime, container: str | None, generation: int | None) -> Plan:
        """The plan one step further, `container` being asked for it."""
        changes = {"step": step, "step_at": now, "container": container, "generation": generation, "losses": 0}
        return self.model_copy(update=changes | {"seconds": self.seconds_until(now)})

    def seconds_until(self, now: datetime) -> dict[str, float]:
        """The seconds of all steps when the present one ends at `now`."""
        return {**self.seconds, self.step.value: elapsed(self.step_at, now)}


def elapsed(since: datetime, now: datetime) -> float:
    """Seconds, never negative: another leader's clock may be behind."""
    return round(max(0.0, (now - since).total_seconds()), 3)


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Nothing was asked yet, there is no answer yet, or the work goes on."""


@dataclass(frozen=True, slots=True)
class Done:
    """The container did it. `report` is that of a redistribution, `savepoint` that of a savepoint."""

    report: RedistributionReport | None = None
    savepoint: SavepointReport | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The container tried and could not."""

    error: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The container has not answered for too long. It may still work, and what it makes is of no use any more."""

    why: str


Outcome = Unanswered | Done | Failed | Lost


@dataclass(frozen=True, slots=True)
class Progress:
    """A recorded plan and all that its next step follows from.

    `newest_generation`: the highest that the job ever took. `candidate`: who would be asked next, None when nobody
    can be. `container_lives`: the store does not say that the container which was asked is lost.
    """

    plan: Plan
    newest_generation: int
    outcome: Outcome = Unanswered()
    candidate: str | None = None
    container_lives: bool = True


class Place(Protocol):
    """What is used of a live container."""

    @property
    def url(self) -> str:
        """Where it is reached."""
        ...

    @property
    def offers(self) -> frozenset[str]:
        """Its region and labels, as `penstock.tasks.selectors` has them."""
        ...


class Helper(NamedTuple):
    """A live container that could be asked; `load` is the number of plans that it works for."""

    name: str
    offers: frozenset[str]
    load: int


def choose(
    helpers: Sequence[Helper], selector: str | None, avoid: str | None, ran_on: Collection[str] = ()
) -> str | None:
    """Who to ask: one that meets the job's selector if any does, not the last one if there are others, the least busy;
    of these one that ran the job, for its hosts are warm."""
    near = [helper for helper in helpers if meets(helper.offers, selector)] or list(helpers)
    others = [helper for helper in near if helper.name != avoid] or near
    return (
        min(others, key=lambda helper: (helper.load, helper.name not in ran_on, helper.name)).name if others else None
    )
