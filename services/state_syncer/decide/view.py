"""The input of a decision about a job: its rows, and what is observed of its tasks. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from penstock.config.model import ChangeKind, DesiredState
from penstock.model.jobs import JobState
from penstock.tasks.rollout import RunningRollout
from services.state_syncer.decide.observe import Presence, Silent
from services.state_syncer.decide.progress import Plan, Progress, Restore
from services.state_syncer.decide.quiet import UNHEARD, Quiet
from services.state_syncer.decide.waves import Rolling, Rollout
from services.state_syncer.decide.whereabouts import ALL_RUN, Whereabouts

Config = Mapping[str, Any]
Digests = Mapping[str, str]
"""The digests of a configuration (`penstock.tasks.digests`); empty where none are stored."""


class Unusable(NamedTuple):
    """Why a job is left as it runs: its layers merge to no valid configuration, or a record of it cannot be read.

    The Job Service refuses writes that make a merge invalid; a change of ranks may make one.
    """

    reason: str
    field: str | None


@dataclass(frozen=True, slots=True)
class Running:
    """What the job has been brought to.

    `started`: some commit asked for tasks, so checkpoints may exist. `quiescing`: the tasks take no more rows
    (`TaskTemplate.level_ms`).
    `rollout`: only some of the tasks run `config`. `first_generation`: the first that the job ever had, above those of
    a deleted job of the same name. `is_proven`: a task has finished a batch with rows with the package and query of
    `last_whole`.
    """

    config: Config
    revision: int
    generation: int
    restarts: int
    stopping: bool
    started: bool
    commit_number: int
    rollout: RunningRollout | None = None
    digests: Digests = field(default_factory=dict)
    first_generation: int = 1
    is_proven: bool = True
    quiescing: bool = False
    level_ms: int | None = None

    @property
    def asks_for_tasks(self) -> bool:
        """Whether tasks shall run."""
        return not self.stopping and bool(self.config["desired_state"] == DesiredState.RUNNING)

    @property
    def last_whole(self) -> Config:
        """The configuration that all tasks ran last."""
        return self.config if self.rollout is None else self.rollout.before.config


@dataclass(frozen=True, slots=True)
class SyncRecord:
    """How the last attempt on a job ended; what `/sync` shows. `fields` None: nobody has compared them yet."""

    state: JobState
    revision: int
    detail: str = ""
    kind: ChangeKind = ChangeKind.NONE
    fields: tuple[str, ...] | None = ()
    failures: int = 0
    next_attempt_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobRow:
    """The rows of a job that are cheap to read. `revision`, `restarts`: as expected."""

    job: str
    revision: int
    restarts: int
    deleting: bool
    sync: SyncRecord | None = None

    @property
    def failures(self) -> int:
        """The number of failures in a row, so far."""
        return 0 if self.sync is None else self.sync.failures

    def failures_since(self, revision: int) -> int:
        """The failures in a row since this write: a newer write starts from none."""
        return 0 if self.sync is None or self.sync.revision < revision else self.sync.failures


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingJob(JobRow):
    """A job whose rollout goes on. `changed`: something else was asked of the job meanwhile, so that its configurations
    must be read. `generation`: the one that its tasks run."""

    generation: int
    rolling: Rolling
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView(JobRow):
    """All that a decision about a job is made from.

    `last_generation` is that of a forgotten job of the same name, 0 without one. `presence` and `silent` (who has yet
    to say that its tasks are gone) count for a job whose stop is committed, `quiet` for one whose tasks take no more
    rows, `where` for one whose state is copied while they run. `progress` and `rolling` are the recorded plan of a
    rescale or of a rollout. `restore` was asked for and is not done. `digests` are those of `expected`.
    """

    expected: Config | Unusable
    running: Running | None = None
    last_generation: int = 0
    presence: Presence = Presence.UNKNOWN
    silent: tuple[Silent, ...] = ()
    quiet: Quiet = UNHEARD
    where: Whereabouts = ALL_RUN
    progress: Progress | None = None
    restore: Restore | None = None
    rolling: Rolling | None = None
    digests: Digests = field(default_factory=dict)

    @property
    def first_generation(self) -> int:
        """The first generation that the job ever had, or will have."""
        return self.last_generation + 1 if self.running is None else self.running.first_generation

    def asks_for_more(self, plan: Plan | Rollout, config: Config, restore: Restore | None = None) -> bool:
        """Whether anything was asked of the job since `plan`, which brings it to `config`."""
        is_newer = self.revision > plan.revision or self.restarts > plan.restarts
        return is_newer or self.expected != config or self.restore != restore
