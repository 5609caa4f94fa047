"""A rescale as it is recorded in `sync_state.plan`, and what is known of its progress. Pure."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from pydantic import Field, field_serializer

from penstock.config.model import Carried
from penstock.tasks import host_task
from penstock.tasks.redistribution import SavepointName
from services.state_syncer.host_tasks.outcomes import UNANSWERED, Outcome


class Step(StrEnum):
    """The recorded steps of a plan. A step that a host task carries out has the name of its kind.

    The orders to take no more rows and to read on, the stop and the result are commits. Each is one transaction with
    the record of the step that follows it, and the result ends the plan. `level` is recorded as `quiesce`, which a
    State Syncer of the release before can read; the level of the running row tells them apart.
    """

    COPY = host_task.COPY_STATE
    QUIESCE = "quiesce"
    LEVEL = "level"
    AWAIT_STOPPED = "await_stopped"
    REDISTRIBUTE = host_task.REDISTRIBUTE
    SEAL = host_task.SEAL


class IllegalMove(Exception):
    """What is found cannot be in the plan's step: a bug. The message has the whole plan."""


STEPS = (
    Step.COPY.value,
    Step.QUIESCE.value,
    Step.LEVEL.value,
    "stop",
    Step.AWAIT_STOPPED.value,
    Step.REDISTRIBUTE.value,
    Step.SEAL.value,
    "commit",
)
QUIESCED_STEPS = (Step.QUIESCE, Step.LEVEL)
"""The steps in which the tasks run and take no more rows, or soon will."""
TAKEN_BACK = "taken_back"
"""In `Plan.seconds`: what the steps took before tasks took rows again."""
RUNNING_STEPS = (Step.COPY, *QUIESCED_STEPS)
"""The steps in which the tasks of the old generation still run."""


class Restore(Carried):
    """A savepoint that a job must start from. `number` identifies the request. `generation` and `config` are those of
    the job that the savepoint was taken of."""

    number: int
    savepoint: SavepointName
    generation: int
    config: dict[str, Any]


class Plan(Carried):
    """The intent of a rescale, or of a restore, recorded before anything is done about it."""

    kind: Literal["rescale"] = "rescale"
    steps: tuple[str, ...] = STEPS
    step: Step = Step.AWAIT_STOPPED
    revision: int
    restarts: int
    config: dict[str, Any]
    """The last step commits this configuration, with `revision` and `restarts`."""
    fields: tuple[str, ...]
    """The changed fields that need the rescale."""
    restore: Restore | None = None
    """The savepoint that is the source in place of the old generation."""
    generation: int | None = None
    """The number of the present attempt, used for no other one; None before the first. Before the redistribution it is
    that of a copy of the state, which the redistribution goes on with."""
    container: str | None = None
    """The container that was asked last. Without a generation it is one whose copy was dropped: it may still work at
    it, so the next attempt goes to another one."""
    losses: int = 0
    """How many containers were lost in this step."""
    ran_on: tuple[str, ...] = ()
    """The containers that had tasks of the job when the plan began."""
    begun_at: datetime
    step_at: datetime
    """When the present step began."""
    seconds: dict[str, float] = Field(default_factory=dict)
    """How long each step took that is over."""
    uncopied: str = ""
    """Why the state was not copied while the tasks ran, or is not to be; or the copy was of no use."""
    lost_at: datetime | None = Field(None, exclude_if=operator.not_)
    """Since when a task does not run, while the others take no more rows; None when all run, or it is unknown."""
    taken_back: tuple[str, ...] = Field((), exclude_if=operator.not_)
    """The tasks that were lost when the plan let all others take rows again, and began anew; once for each time."""
    failed_before: str = Field("", exclude_if=operator.not_)
    """How the attempt before this one failed; empty when it is the first, or that is not known any more."""

    @field_serializer("step")
    def _recorded(self, step: Step) -> str:
        return (Step.QUIESCE if step is Step.LEVEL else step).value

    def under(self, level_ms: int | None) -> Plan:
        """The recorded plan of a job whose running row has this level."""
        reads_on = self.step is Step.QUIESCE and level_ms
        return self.model_copy(update={"step": Step.LEVEL}) if reads_on else self

    def at(self, step: Step, now: datetime, container: str | None, generation: int | None) -> Plan:
        """The plan at the next step, for which `container` is asked."""
        changes = {"step": step, "step_at": now, "container": container, "generation": generation, "losses": 0}
        return self.model_copy(update=changes | {"lost_at": None, "seconds": self.seconds_until(now)})

    def again(self, lost: str, now: datetime) -> Plan:
        """The plan from its first step on, since tasks were lost that `lost` names: all others take rows until all run.

        What was copied is too old by then. A container that may still be busy with a copy stays recorded.
        """
        begun = self.at(Step.COPY, now, self.container if self.generation is None else None, None)
        seconds = {TAKEN_BACK: round(sum(begun.seconds.values()), 3)}
        return begun.model_copy(update={"seconds": seconds, "uncopied": "", "taken_back": (*self.taken_back, lost)})

    @property
    def has_attempt(self) -> bool:
        """Whether the container is asked to fill the plan's generation, or has done so."""
        return self.container is not None and self.generation is not None

    @property
    def step_number(self) -> int:
        """The index of the step in `steps`, which may lack the step in a plan of another release."""
        known = self.step.value if self.step.value in self.steps else self._recorded(self.step)
        return self.steps.index(known) if known in self.steps else 0

    def describe(self, why: str = "") -> str:
        """What the plan waits for, in words for people; `why` says it better where it is known."""
        match self.step:
            case Step.COPY if not self.has_attempt:
                usual = "until a container copies the state; all tasks run"
            case Step.COPY:
                usual = f"{self.container} copies the state into generation {self.generation}; all tasks run"
            case Step.QUIESCE:
                usual = "until all tasks have finished their batches; nothing is stopped yet"
            case Step.LEVEL:
                usual = "until tasks that are behind have read on; nothing is stopped yet"
            case Step.AWAIT_STOPPED:
                usual = "until every container has reported that no task of the job runs"
            case Step.REDISTRIBUTE:
                usual = f"{self.container} writes generation {self.generation}"
            case Step.SEAL:
                usual = f"{self.container} ends the generation before {self.generation}"
        lost = f" (attempts lost: {self.losses})" if self.losses else ""
        slow = f". All state moves while the job is stopped: {self.uncopied}" if self.uncopied else ""
        return f"{self.step.value}: {why or usual}{lost}{slow}{self._again()}"

    def _again(self) -> str:
        if not self.taken_back:
            return ""
        times = "once" if len(self.taken_back) == 1 else f"{len(self.taken_back)} times"
        then = "; it begins anew once all tasks run" if self.step is Step.COPY and not self.has_attempt else ""
        return f". The rescale was taken back {times} since tasks were lost ({self.taken_back[-1]}){then}"

    def seconds_spent(self, now: datetime) -> float:
        """How long the step has taken so far. The time in which tasks read on is that in which they finish batches. The
        time until the rescale was taken back is one of copies."""
        earlier = {Step.LEVEL: Step.QUIESCE.value, Step.COPY: TAKEN_BACK}
        return self.seconds.get(earlier.get(self.step, ""), 0.0) + elapsed(self.step_at, now)

    def seconds_until(self, now: datetime) -> dict[str, float]:
        """The seconds of all steps when the present one ends at `now`."""
        return {**self.seconds, self.step.value: elapsed(self.step_at, now)}


def elapsed(since: datetime, now: datetime) -> float:
    """Seconds, never negative: another leader's clock may be behind."""
    return round(max(0.0, (now - since).total_seconds()), 3)


@dataclass(frozen=True, slots=True)
class Progress:
    """A recorded plan and all that its next step follows from.

    `newest_generation`: the highest number that the job ever took. `candidate`: the container that would be asked next;
    None when there is none. `container_lives`: the store does not say that the container which was asked is lost.
    `has_state`: False when all tasks reported that they keep none. `has_transactions`: the old generation can only be
    sealed while the Kafka of its outputs answers.
    """

    plan: Plan
    newest_generation: int
    outcome: Outcome = UNANSWERED
    candidate: str | None = None
    container_lives: bool = True
    has_state: bool = True
    has_transactions: bool = False

    @property
    def asks_for_copy(self) -> bool:
        """Whether a container has work before the stop: to copy state, or to find out whether the seal can be made."""
        return self.has_state or self.has_transactions


class PlanRow(NamedTuple):
    """A recorded plan as JSON, which may be no plan, and the highest generation that its job ever took. `runs`: the
    job's tasks run but for the plan."""

    plan: Any
    newest_generation: int
    deleting: bool
    runs: bool

    @property
    def is_rollout(self) -> bool:
        """Whether the plan is that of a rollout; all others are of rescales."""
        return bool(self._get("kind") == "rollout")

    @property
    def is_copying(self) -> bool:
        """Whether all tasks of the plan's job run, while their state is copied."""
        return bool(self._get("step") == Step.COPY.value)

    @property
    def disrupts(self) -> bool:
        """Whether the plan keeps tasks from their work that would run without it."""
        return self.runs and not self.is_copying

    @property
    def container(self) -> str | None:
        """The container that the plan has asked."""
        found = self._get("container")
        return found if isinstance(found, str) else None

    def _get(self, name: str) -> Any:
        return self.plan.get(name) if isinstance(self.plan, dict) else None
