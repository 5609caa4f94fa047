"""A rollout as it is recorded in `sync_state.plan`, and what its tasks report. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from penstock.config.model import Carried
from penstock.model.reports import TaskState
from penstock.tasks.rollout import ROLLOUT_SHARE, LeafChange, OrderedRollout, RolloutOrder, SeenTask

CRASHES_BEFORE_HALT = 3
NOTHING_PROVEN = "no package that has worked in this job to go back to"


class Stage(StrEnum):
    """The stage of a rollout: a wave is under way, or it halted and waits for the rollback."""

    WAVE = "wave"
    ROLL_BACK = "roll_back"


class Rollout(Carried):
    """The intent of a rollout. The running row has what is committed so far.

    `revision`, `restarts`: what an upgraded task must report. `fields`: all that the write changes; `leaves`: those
    that a rollback resets. `ends`: for each wave, how many tasks are upgraded once it has begun. `wave`: the present
    one, from 0, which began at `step_at`. `crashes`: of each task, before it was upgraded. `well_since`: since when all
    upgraded tasks have been running. `ill`: the upgraded task that has been reported as not healthy for longest, since
    `ill_since`. `late`: what is not known of the wave, which is paused until it is. `why`: the reason of a halt.
    `goes_back`: a task of the job has finished a batch with rows with the package before, or an operator aborted the
    rollout. Then the job goes back to that package when a wave is not healthy.
    """

    kind: Literal["rollout"] = "rollout"
    steps: tuple[str, ...]
    step: Stage = Stage.WAVE
    revision: int
    restarts: int
    fields: tuple[str, ...]
    leaves: tuple[LeafChange, ...]
    ends: tuple[int, ...]
    wave: int = 0
    crashes: dict[int, int] = Field(default_factory=dict)
    begun_at: datetime
    step_at: datetime
    well_since: datetime | None = None
    ill: int | None = None
    ill_since: datetime | None = None
    late: str = ""
    why: str = ""
    goes_back: bool = True

    @property
    def upgraded(self) -> int:
        """How many tasks run the new package, or will as soon as they restart."""
        return self.ends[self.wave]

    @property
    def step_number(self) -> int:
        """The index of the step in `steps`."""
        return len(self.steps) - 1 if self.step is Stage.ROLL_BACK else self.wave

    def again(self, now: datetime, **changes: object) -> Rollout:
        """The rollout with changes that restart the clock of the wave."""
        fresh = {"step_at": now, "well_since": None, "ill": None, "ill_since": None, "late": ""}
        return self.model_copy(update=fresh | changes)

    def describe(self, why: str = "") -> str:
        """The progress of the rollout, in words for people; `why` says why it does not go on."""
        where = f"wave {self.wave + 1} of {len(self.ends)}, {self.upgraded} of {self.ends[-1]} tasks upgraded"
        if self.step is Stage.ROLL_BACK:
            done = "rolling back from" if self.goes_back else f"halted, with {NOTHING_PROVEN}, in"
            return f"{done} {where}: {self.why}"
        told = why or (f"paused: {self.late}" if self.late else "")
        return f"{where}, {told}" if told else where


def steps_of(ends: tuple[int, ...]) -> tuple[str, ...]:
    """The steps by name; the last one is for a wave that was not healthy."""
    return (*(f"wave_{number}" for number in range(1, len(ends) + 1)), Stage.ROLL_BACK.value)


@dataclass(frozen=True, slots=True)
class RolloutPolicy:
    """`share`: of a job's tasks in a wave; the first wave is one task. A wave is healthy once each upgraded task has
    finished a batch with rows, or all have run for `healthy_seconds`. It fails when a task is reported as not healthy
    for `unhealthy_seconds`. When it is as old as that and too little is known of it, it is late."""

    share: float = ROLLOUT_SHARE
    healthy_seconds: float = 15.0
    unhealthy_seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class Rolling:
    """A recorded rollout and the reports of its tasks, by index. A task that is not in `tasks` is unknown.

    `order`: what an operator asked of a rollout of the job, perhaps of an earlier one.
    """

    plan: Rollout
    tasks: Mapping[int, SeenTask] = field(default_factory=dict)
    order: OrderedRollout | None = None

    @property
    def paused(self) -> OrderedRollout | None:
        """The operator's order that no further wave begins."""
        return self._order(RolloutOrder.PAUSE)

    @property
    def aborted(self) -> OrderedRollout | None:
        """The operator's order to go back, which was not carried out yet."""
        is_done = self.plan.step is Stage.ROLL_BACK and self.plan.goes_back
        return None if is_done else self._order(RolloutOrder.ABORT)

    def _order(self, action: RolloutOrder) -> OrderedRollout | None:
        order = self.order
        is_mine = order is not None and order.begun_at == self.plan.begun_at and order.action is action
        return order if is_mine else None


class Sign(StrEnum):
    """What it says about the package that a task is not healthy."""

    ILL = "the task has the package and does not come to run"
    BEHIND = "the task is reported, and does not have the package yet"
    UNKNOWN = "the task is not reported"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a task is not known to be healthy. `crashes`: since it was upgraded. `since`: when it was reported last, if
    that is too long ago."""

    index: int
    crashes: int
    why: str
    sign: Sign = Sign.BEHIND
    since: datetime | None = None


def troubles(rolling: Rolling, generation: int) -> Iterator[Trouble]:
    """The upgraded tasks that are not healthy, or unknown."""
    plan = rolling.plan
    for index in range(plan.upgraded):
        seen = rolling.tasks.get(index)
        if seen is None:
            yield Trouble(index, 0, "the container that owns it has not reported it", Sign.UNKNOWN)
            continue
        is_new = seen.revision >= plan.revision and seen.generation == generation and seen.restarts >= plan.restarts
        crashes = max(0, seen.crashes - plan.crashes.get(index, 0)) if is_new else 0
        found = _trouble(index, seen, crashes, is_new=is_new)
        if found is not None:
            yield found


def _trouble(index: int, seen: SeenTask, crashes: int, *, is_new: bool) -> Trouble | None:
    """A crash that was reported has happened, whenever that was. All else that an old report says may be over."""
    times = f"{crashes} crash{'es' if crashes > 1 else ''}"
    why = f"{seen.state} after {times}: {seen.error or 'no reason given'}"
    if crashes >= CRASHES_BEFORE_HALT:
        return Trouble(index, crashes, why, Sign.ILL)
    if seen.silent_since is not None:
        return Trouble(index, crashes, "its container does not report any more", Sign.UNKNOWN, seen.silent_since)
    if crashes:
        return Trouble(index, crashes, why, Sign.ILL)
    if is_new and seen.state == TaskState.RUNNING:
        return None
    is_ill = is_new and seen.state in _TRIES_TO_RUN
    return Trouble(index, 0, f"{seen.state} at revision {seen.revision}", Sign.ILL if is_ill else Sign.BEHIND)


# A task that is held or that stops says nothing about its package.
_TRIES_TO_RUN = (TaskState.STARTING, TaskState.CRASHED)


def longest_ill(plan: Rollout, found: Collection[Trouble], now: datetime) -> tuple[int | None, datetime | None]:
    """The task that has been reported as not healthy for longest, and since when. One that is no longer reported so
    gives its place to another one, whose time begins then."""
    ill = [trouble.index for trouble in found if trouble.sign is Sign.ILL]
    if plan.ill in ill:
        return plan.ill, plan.ill_since
    return (ill[0], now) if ill else (None, None)


def lateness(plan: Rollout, found: Collection[Trouble]) -> str:
    """What is not known of a wave, or what keeps its tasks from the package, in words for people."""
    unheard = [trouble for trouble in found if trouble.sign is Sign.UNKNOWN]
    of_all = f"of {plan.upgraded} upgraded task{'s' if plan.upgraded > 1 else ''}"
    if unheard:
        since = min(max(trouble.since or plan.step_at, plan.step_at) for trouble in unheard)
        at = since.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        return f"no report of {len(unheard)} {of_all} since {at}"
    first = min(found, key=lambda trouble: (trouble.sign is not Sign.BEHIND, trouble.index))
    return f"{len(found)} {of_all} not healthy yet: task {first.index}: {first.why}"


def crashes_before(rolling: Rolling) -> dict[int, int]:
    """The crashes of each task before it was upgraded, as tasks that do not report the upgrade yet have them. When a
    container starts to count again with the package, its lower number counts."""
    plan = rolling.plan
    told = {index: seen.crashes for index, seen in rolling.tasks.items() if seen.revision < plan.revision}
    less = {
        index: min(crashes, rolling.tasks[index].crashes)
        for index, crashes in plan.crashes.items()
        if index in rolling.tasks
    }
    return {index: crashes for index, crashes in (plan.crashes | less | told).items() if crashes}
