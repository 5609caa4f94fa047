"""A rollout as it is recorded in `sync_state.plan`, and what its tasks report. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from penstock.config.model import Carried
from penstock.model.reports import TaskState
from penstock.tasks.rollout import ROLLOUT_SHARE, LeafChange, SeenTask

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
    upgraded tasks have been running. `why`: the reason of a halt. `goes_back`: a task of the job has finished a batch
    with rows with the package before, so the job goes back to that when a wave is not healthy.
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
        return self.model_copy(update={"step_at": now, "well_since": None} | changes)

    def describe(self, waits_for: str = "") -> str:
        """The progress of the rollout, in words for people."""
        where = f"wave {self.wave + 1} of {len(self.ends)}, {self.upgraded} of {self.ends[-1]} tasks upgraded"
        if self.step is Stage.ROLL_BACK:
            done = "rolling back from" if self.goes_back else f"halted, with {NOTHING_PROVEN}, in"
            return f"{done} {where}: {self.why}"
        return f"{where}{f', waiting for {waits_for}' if waits_for else ''}"


def steps_of(ends: tuple[int, ...]) -> tuple[str, ...]:
    """The steps by name; the last one is for a wave that was not healthy."""
    return (*(f"wave_{number}" for number in range(1, len(ends) + 1)), Stage.ROLL_BACK.value)


@dataclass(frozen=True, slots=True)
class RolloutPolicy:
    """`share`: of a job's tasks in a wave; the first wave is one task. A wave is healthy once each upgraded task has
    finished a batch with rows, or all have run for `healthy_seconds`. Otherwise it fails after `unhealthy_seconds`."""

    share: float = ROLLOUT_SHARE
    healthy_seconds: float = 15.0
    unhealthy_seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class Rolling:
    """A recorded rollout and the reports of its tasks, by index. A task that is not in `tasks` is unknown."""

    plan: Rollout
    tasks: Mapping[int, SeenTask] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a task is not healthy. `crashes`: since it was upgraded."""

    index: int
    crashes: int
    why: str


def troubles(rolling: Rolling, generation: int) -> Iterator[Trouble]:
    """The upgraded tasks that are not healthy, or unknown."""
    plan = rolling.plan
    for index in range(plan.upgraded):
        seen = rolling.tasks.get(index)
        if seen is None:
            yield Trouble(index, 0, "the container that owns it has not reported it")
            continue
        is_new = seen.revision >= plan.revision and seen.generation == generation and seen.restarts >= plan.restarts
        crashes = max(0, seen.crashes - plan.crashes.get(index, 0)) if is_new else 0
        if crashes:
            times = f"{crashes} crash{'es' if crashes > 1 else ''}"
            yield Trouble(index, crashes, f"{seen.state} after {times}: {seen.error or 'no reason given'}")
        elif not is_new or seen.state != TaskState.RUNNING:
            yield Trouble(index, 0, f"{seen.state} at revision {seen.revision}")


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
