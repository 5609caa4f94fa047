"""What may be decided about a job, as data. `effects` says what each decision writes, logs and asks for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.config.classify import NO_DIFFERENCE, Difference
from penstock.config.model import ChangeKind, DesiredState
from penstock.tasks.rollout import Rejected, RunningRollout
from services.state_syncer.decide.diff import Config
from services.state_syncer.decide.observe import Presence
from services.state_syncer.decide.progress import Plan, Restore
from services.state_syncer.decide.view import SyncState
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
    state: SyncState = SyncState.WAITING


@dataclass(frozen=True, slots=True)
class StartRescale:
    """Checkpoints must be redistributed for the change: a rescale may begin once the budget has room."""

    config: Config
    difference: Difference
    restore: Restore | None = None


@dataclass(frozen=True, slots=True)
class StartRollout:
    """Running tasks get another package: a rollout may begin once the budget has room. It ends in `commit`."""

    commit: Commit

    @property
    def config(self) -> Config:
        """What is to run."""
        return self.commit.config

    @property
    def difference(self) -> Difference:
        """What changes."""
        return self.commit.difference


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
    `config` yet.
    """

    config: Config
    revision: int
    generation: int
    restarts: int
    stopping: bool = False
    difference: Difference = field(default=NO_DIFFERENCE)
    then: Wait | Fail | BackingOff | None = None
    rollout: RunningRollout | None = None

    @property
    def asks_for_tasks(self) -> bool:
        """Whether tasks start because of it."""
        return bool(self.config["desired_state"] == DesiredState.RUNNING)


@dataclass(frozen=True, slots=True)
class AwaitStopped:
    """The stop is committed; tasks are still there, or it is not known whether they are."""

    presence: Presence


@dataclass(frozen=True, slots=True)
class Forget:
    """No task of the deleted job is left: remove it."""


Change = Nothing | BackingOff | Wait | StartRescale | StartRollout | Fail | Commit | AwaitStopped | Forget


# ---- about the recorded plan of a rescale or a restore


@dataclass(frozen=True, slots=True)
class StopAndRecord:
    """Record the plan and commit the stop. `commit` is what runs, with no task served."""

    plan: Plan
    commit: Commit


@dataclass(frozen=True, slots=True)
class RecordStep:
    """Record the plan as it is now; then ask its container."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Poll:
    """Record nothing; ask the container, or read the tasks, again. `why`: the reason when no container can be asked."""

    plan: Plan
    why: str = ""


@dataclass(frozen=True, slots=True)
class Finish:
    """Commit the new generation and end the plan. `seconds`: by step, and `total`."""

    plan: Plan
    commit: Commit
    seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Resume:
    """End the plan and let the old generation run, as `commit` says. `failure`: why, unless the plan was taken back."""

    plan: Plan
    commit: Commit
    failure: Fail | None = None


@dataclass(frozen=True, slots=True)
class RetryStep:
    """A step that cannot be taken back failed: it is tried again later."""

    plan: Plan
    failure: Fail


RescaleStep = StopAndRecord | RecordStep | Poll | Finish | Resume | RetryStep


# ---- about the recorded plan of a rollout


@dataclass(frozen=True, slots=True)
class CommitWave:
    """Record the plan and commit the wave."""

    plan: Rollout
    commit: Commit


@dataclass(frozen=True, slots=True)
class RecordWave:
    """Record what was seen of the wave."""

    plan: Rollout


@dataclass(frozen=True, slots=True)
class PollWave:
    """Record nothing; read the tasks again. `waits_for`: what the wave waits for."""

    plan: Rollout
    waits_for: str


@dataclass(frozen=True, slots=True)
class FinishRollout:
    """All tasks run the package and are healthy: end the plan."""

    plan: Rollout


@dataclass(frozen=True, slots=True)
class Halt:
    """Record that the package is rejected."""

    plan: Rollout
    rejected: Rejected


@dataclass(frozen=True, slots=True)
class EndRollout:
    """End the plan with a commit of the whole."""

    plan: Rollout
    commit: Commit


RolloutStep = CommitWave | RecordWave | PollWave | FinishRollout | Halt | EndRollout

Decision = Change | RescaleStep | RolloutStep
