"""What a decision is made from, and the decision. None is not measured, or not looked at: never zero."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, TypedDict

from penstock.config.declare import Model
from penstock.config.model import JobConfig
from penstock.tasks.spec import key_group_count
from services.auto_scaler.decide.policy import Policy
from services.auto_scaler.decide.symptoms import JobSymptoms

TASK_COUNT = "task_count"
BOUNDS = "key_group_bounds"
MEMORY = "resources.memory_bytes"


def tasks_in_words(count: int) -> str:
    """Such as `1 task` and `2 tasks`."""
    return "1 task" if count == 1 else f"{count:,} tasks"


def set_above(field: str) -> str:
    """Why a field is left as it is: a change of it would show no effect."""
    return f"{field} is set by a higher layer, such as an override: penstock explain shows whose it is"


class Symptom(StrEnum):
    """What the decision answers."""

    UNKNOWN = "unknown"
    NONE = "none"
    LAG = "lag"
    OUT_OF_MEMORY = "out_of_memory"


class Action(StrEnum):
    """What is to be done. `undo` takes an increase back that did not help."""

    NONE = "none"
    REBALANCE = "rebalance"
    MOVE_TASK = "move_task"
    INCREASE_TASKS = "increase_tasks"
    INCREASE_MEMORY = "increase_memory"
    DECREASE_TASKS = "decrease_tasks"
    DECREASE_MEMORY = "decrease_memory"
    UNDO = "undo"


class DayHistory(Model):
    """The minutes of the last day, or of `quiet_minutes`: those with measurements, with lag beyond the SLO, with a task
    out of memory.

    `minutes_quiet`: those with measurements since the last minute with lag or a task out of memory.
    """

    minutes_measured: int
    minutes_lagging: int
    minutes_out_of_memory: int
    minutes_quiet: int | None = None


class RateEstimate(Model):
    """What one task gets through in a second of work: P * k of the paper.

    It is the median of the minutes in which tasks were busy, `busy_minutes` of them. Without enough of those it is the
    median of all minutes, and `is_lower_bound`: a task with little to do is never faster than a busy one.
    `latest_rows_per_second` is that of the newest busy minutes alone, None when they are too few.
    `best_rows_per_second`: one minute in ten was faster, busy or not. `of_profile`: it is the rate of a staging run
    (`penstock jobs profile`), as the tasks have not been busy for long enough.
    """

    rows_per_second: float
    busy_minutes: int
    is_lower_bound: bool = False
    latest_rows_per_second: float | None = None
    best_rows_per_second: float | None = None
    of_profile: bool = False

    @property
    def is_sure(self) -> bool:
        """Whether it was measured while the tasks were busy."""
        return not (self.is_lower_bound or self.of_profile)

    @property
    def best(self) -> float:
        """What a task has shown that it can do. A staging run has no sink, so it shows nothing of that."""
        if self.of_profile:
            return self.best_rows_per_second or 0.0
        return max(self.rows_per_second, self.best_rows_per_second or self.rows_per_second)

    @property
    def careful(self) -> float:
        """What a task does for sure: not more than lately."""
        return min(self.rows_per_second, self.latest_rows_per_second or self.rows_per_second)


class StateSize(Model):
    """What the state of a task takes, learned from `minutes` minutes of tasks.

    `rows`: of the task that has most. `seconds_kept`: rows of state for each row per second that comes in, which is how
    long a window or a join keeps a row, times what matches; None when the rows do not depend on the input, as those of
    an aggregation by keys, or when that is not known.
    """

    bytes_per_row: float
    rows: float
    minutes: int
    seconds_kept: float | None = None


class Use(Model):
    """What the task that uses most takes of a dimension of `penstock.tasks.dimensions`, and what the smallest live
    container has of it; in bytes, or bytes per second."""

    dimension: str
    of_task: float
    of_container: float


class Load(Model):
    """What comes in (X of the paper), in rows per second; what waits (B), and how fast that grows.

    Rows that come in are those that are read and those by which the backlog grows. `busiest_*`: of the task with most
    to do, None when it is unknown.
    """

    rows_per_second: float
    backlog_records: float | None = None
    backlog_growth_per_second: float | None = None
    busiest_rows_per_second: float | None = None
    busiest_backlog_records: float | None = None


class PastDay(Model):
    """What came in `days_ago`, in rows per second, at the same time of day: in the minutes before it, at the peak of
    the minutes after it that scaling must foresee (`soon`), and of the hours that a reduction must last (`ahead`)."""

    days_ago: int
    recent: float | None = None
    soon: float | None = None
    ahead: float | None = None


class Workload(Model):
    """What came in lately, and on past days of which something is known."""

    recent: float | None
    days: tuple[PastDay, ...]


class PastChange(Model):
    """The newest change of the number of tasks that was written, and what was measured before it.

    `input_rows_per_second`: what came in (X).
    """

    at: datetime
    action: Action
    tasks_before: int
    tasks_after: int
    lag_seconds: float | None = None
    processed_rows_per_second: float | None = None
    input_rows_per_second: float | None = None


class PastRebalance(Model):
    """The newest change of the ranges of key groups that was written, and the lag before it."""

    at: datetime
    tasks: int
    lag_seconds: float | None = None


class PastMove(Model):
    """The newest move of a task that was asked for. Unless `refused` it counts as done, also when that is unknown."""

    at: datetime
    index: int
    refused: bool = False


class JobUpdate(Model):
    """The newest write to the job that is not the scaler's."""

    at: datetime
    author: str


class Fleet(Model):
    """The jobs of the round that could be given tasks now, and the actions of the round so far."""

    jobs: int
    lagging: int
    unmeasured: int
    actions: int = 0


class ScalerState(Model):
    """What else the decision depends on.

    `converged`: the job runs what is expected of it. `running_since`: its last commit. `declared_*`: what the layers
    below the scaler's ask for. `pinned`: fields that a layer above sets, so that a change would show no effect.
    `container_memory_bytes`: of the smallest live container, None when there is none. `memory_used_bytes`: of the
    task that uses most. `uses`: disk and network, where known. `traffic`: rows per second into each key group.
    `containers`: of each task, None where it is unknown. `moves`: of single tasks, of each the newest in the last day.
    """

    converged: bool
    running_since: datetime
    last_action_at: datetime | None = None
    declared_task_count: int = 1
    declared_memory_bytes: int = 0
    pinned: frozenset[str] = frozenset()
    container_memory_bytes: int | None = None
    memory_used_bytes: int | None = None
    uses: tuple[Use, ...] = ()
    day: DayHistory | None = None
    rate: RateEstimate | None = None
    load: Load | None = None
    state_size: StateSize | None = None
    workload: Workload | None = None
    last_change: PastChange | None = None
    last_rebalance: PastRebalance | None = None
    traffic: tuple[float | None, ...] | None = None
    containers: tuple[str | None, ...] | None = None
    moves: tuple[PastMove, ...] = ()
    update: JobUpdate | None = None
    fleet: Fleet | None = None
    actions_last_hour: int | None = None


class Situation(NamedTuple):
    """All inputs of a decision."""

    symptoms: JobSymptoms
    config: JobConfig
    state: ScalerState
    policy: Policy
    now: datetime

    @property
    def tasks(self) -> int:
        return self.config.task_count

    @property
    def is_isolated(self) -> bool:
        return self.config.isolation == "process"

    @property
    def is_over_slo(self) -> bool:
        return (self.symptoms.time_lagged_seconds or 0.0) > self.config.slo.max_lag_seconds

    @property
    def key_groups(self) -> int:
        return key_group_count(self.config)


class Move(TypedDict):
    """A task that leaves a container."""

    index: int
    container: str


class ScalingDecision(Model):
    """What to do and why; `change` is a merge patch for the scaler's layer, None when nothing is written. Of a
    `move_task` it is a `Move` instead: which task leaves which container.

    `limits`: what kept the decision from doing more. `untriaged`: the cause is unknown, so that people must look.
    """

    symptom: Symptom
    action: Action
    reason: str
    change: dict[str, Any] | None = None
    limits: tuple[str, ...] = ()
    untriaged: bool = False


def nothing(symptom: Symptom, reason: str, *limits: str, untriaged: bool = False) -> ScalingDecision:
    """The decision to do nothing."""
    return ScalingDecision(symptom=symptom, action=Action.NONE, reason=reason, limits=limits, untriaged=untriaged)


def with_tasks(
    symptom: Symptom, action: Action, reason: str, wanted: int, *limits: str, untriaged: bool = False
) -> ScalingDecision:
    """The decision to run `wanted` tasks."""
    change = {"task_count": wanted}
    return ScalingDecision(
        symptom=symptom, action=action, reason=reason, change=change, limits=limits, untriaged=untriaged
    )
