"""What may be decided about a job, as data. `effects` says what each decision writes, logs and asks for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from penstock.config.classify import NO_DIFFERENCE, Difference
from penstock.config.model import ChangeKind, DesiredState
from penstock.model.jobs import JobState
from penstock.tasks.rollout import Rejected, RunningRollout
from services.state_syncer.decide.observe import Presence
from services.state_syncer.decide.progress import Plan, Restore
from services.state_syncer.decide.view import Config
from services.state_syncer.decide.waves import Rollout

# ---- about a job without a plan


@dataclass(frozen=True, slots=True)
class Nothing:
    """The job runs what it should."""


@dataclass(frozen=True, slots=True)
class BackingOff:
    """The job is quarantined, or its next attempt is not due. Nothing is tried or written."""


@dataclass(frozen=True, slots=True)
class Wait:
    """No part of the change can be made yet. `failures`: in a row, so far."""

    detail: str
    difference: Difference
    failures: int = 0
    state: JobState = JobState.WAITING


@dataclass(frozen=True, slots=True)
class Fail:
    """The attempt failed; the job runs on unchanged."""

    detail: str
    kind: ChangeKind = ChangeKind.NONE
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Commit:
    """Make this the running row.

    `then` is the decision about the rest when only a restart could be committed. `rollout`: which tasks do not run
    `config` yet. `quiescing`: the tasks finish their batches and take no more rows
    (`TaskTemplate.level_ms`).
    """

    config: Config
    revision: int
    generation: int
    restarts: int
    stopping: bool = False
    difference: Difference = field(default=NO_DIFFERENCE)
    then: Wait | Fail | BackingOff | None = None
    rollout: RunningRollout | None = None
    quiescing: bool = False
    level_ms: int | None = None

    @property
    def asks_for_tasks(self) -> bool:
        """Whether tasks start because of it."""
        return bool(self.config["desired_state"] == DesiredState.RUNNING)


@dataclass(frozen=True, slots=True)
class StartRescale:
    """Checkpoints must be redistributed for the change: a rescale may begin once the budget has room. It ends in
    `commit`, at a new generation; the difference is the part that needs the rescale. `copies`: it begins with a copy of
    the state, and the tasks run meanwhile."""

    commit: Commit
    restore: Restore | None = None
    copies: bool = False


@dataclass(frozen=True, slots=True)
class StartRollout:
    """Running tasks get another package: a rollout may begin once the budget has room. It ends in `commit`."""

    commit: Commit


@dataclass(frozen=True, slots=True)
class AwaitStopped:
    """The stop is committed; tasks are still there, or it is not known whether they are."""

    presence: Presence


@dataclass(frozen=True, slots=True)
class Forget:
    """No task of the deleted job is left: remove it."""


Change = Nothing | BackingOff | Wait | StartRescale | StartRollout | Fail | Commit | AwaitStopped | Forget


# ---- about a recorded plan: that of a rescale or a restore (`Plan`), or of a rollout

AnyPlan = TypeVar("AnyPlan", Plan, Rollout)


@dataclass(frozen=True, slots=True)
class Record(Generic[AnyPlan]):
    """Record the plan as it is now, in one transaction with `commit`; then ask its container, if it has one. `why`: as
    `Poll` has it.

    `rejected`: the package of a rollout that is halted. `disrupts`: the job is disrupted from now on, so the budget
    must have room; until then the plan stays as it was recorded.
    """

    plan: AnyPlan
    commit: Commit | None = None
    rejected: Rejected | None = None
    disrupts: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Poll(Generic[AnyPlan]):
    """Record nothing; ask the container, or read the tasks, again. `why`: what the plan waits for, where its step does
    not say it."""

    plan: AnyPlan
    why: str = ""


@dataclass(frozen=True, slots=True)
class Finish(Generic[AnyPlan]):
    """The plan has come to its end. `commit`: the new generation of a rescale. `seconds`: by step, and `total`."""

    plan: AnyPlan
    commit: Commit | None = None
    seconds: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class End(Generic[AnyPlan]):
    """Give the plan up and commit `commit`. `failure`: the cause; None when a newer write was the cause."""

    plan: AnyPlan
    commit: Commit
    failure: Fail | None = None


@dataclass(frozen=True, slots=True)
class RetryStep:
    """A step that cannot be taken back failed: it is tried again later."""

    failure: Fail


RescaleStep = Record[Plan] | Poll[Plan] | Finish[Plan] | End[Plan] | RetryStep
WaveStep = Record[Rollout] | Poll[Rollout] | Finish[Rollout]
RolloutStep = WaveStep | End[Rollout]

Decision = Change | RescaleStep | RolloutStep
