"""A rollout as it is recorded in `sync_state.plan`, and what is seen of its tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from penstock.config.model import Model
from penstock.tasks.rollout import ROLLOUT_SHARE, LeafChange, SeenTask
from penstock.wire.cluster import TaskState

CRASHES_BEFORE_HALT = 3


class Stage(StrEnum):
    """What a rollout is found in."""

    WAVE = "wave"
    HALTED = "roll_back"


class Rollout(Model):
    """The intent of a rollout: what has gone out is in the running row.

    `revision`, `restarts`: what an upgraded task must report. `fields`: all that the write changes; `leaves`: those
    that going back gives their old values again. `ends`: how many tasks are upgraded once each wave has begun; `wave`
    is the present one, from 0, which began at `step_at`. `crashes`: of tasks, before they were upgraded. `well_since`:
    when all upgraded tasks were first seen to run, and have been since. `why` it was halted.
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

    @property
    def upgraded(self) -> int:
        """How many tasks run the new package, or are about to."""
        return self.ends[self.wave]

    @property
    def step_number(self) -> int:
        """The index of the step in `steps`."""
        return len(self.steps) - 1 if self.step is Stage.HALTED else self.wave

    def again(self, now: datetime, **changes: object) -> Rollout:
        """The same with another wave, or the wave once more: its clock begins anew."""
        return self.model_copy(update={"step_at": now, "well_since": None} | changes)


def steps_of(ends: tuple[int, ...]) -> tuple[str, ...]:
    """The steps by name; the last one is for a wave that was not healthy."""
    return (*(f"wave_{number}" for number in range(1, len(ends) + 1)), Stage.HALTED.value)


@dataclass(frozen=True, slots=True)
class RolloutPolicy:
    """`share` of a job's tasks a wave, one at first. A wave is healthy once its tasks have each finished a batch, or
    have run for `healthy_seconds`; after `unhealthy_seconds` without that it is not."""

    share: float = ROLLOUT_SHARE
    healthy_seconds: float = 15.0
    unhealthy_seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class Rolling:
    """A recorded rollout and all that its next step follows from; tasks that are not in `tasks` are unknown."""

    plan: Rollout
    tasks: Mapping[int, SeenTask] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a task is not as it should be: `crashes` in this wave, and what is said of it."""

    index: int
    crashes: int
    why: str


def troubles(rolling: Rolling, generation: int) -> Iterator[Trouble]:
    """The upgraded tasks that do not run as they should, or of which that is unknown."""
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
    """What tasks had behind them when they were upgraded: those not seen upgraded yet tell it. A container that begins
    to count anew with the package tells less afterwards: then that."""
    plan = rolling.plan
    told = {index: seen.crashes for index, seen in rolling.tasks.items() if seen.revision < plan.revision}
    less = {
        index: min(crashes, rolling.tasks[index].crashes)
        for index, crashes in plan.crashes.items()
        if index in rolling.tasks
    }
    return {index: crashes for index, crashes in (plan.crashes | less | told).items() if crashes}
