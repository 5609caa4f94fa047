"""What the store knows that may explain why a job is not healthy. Pure. None is unknown, never zero."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.config.tree import row_for
from penstock.model.causes import CauseKind, Certainty
from penstock.model.health import Heard, JobFacts, Moment, Verdict, heard, runs_well
from penstock.model.loops import LoopRound
from penstock.model.reports import TaskState
from penstock.model.states import Health
from penstock.tasks.lag import MEASURED, Lag, lag_of
from penstock.tasks.rollout import Rejected
from penstock.wire.jobs import ExplainedLeafView, HistoryEntry
from penstock.wire.overview import AlertRow, DecisionView
from services.job_service.cell_facts import Leader

if TYPE_CHECKING:
    from services.job_service.store.overview import ReportedTask


OF_OPERATORS = frozenset(["oncall", "rollback"])
"""The layers above those of tools: to drop one of them takes nothing else away."""


class Cause(NamedTuple):
    """A cause with its evidence, in sentences."""

    kind: CauseKind
    certainty: Certainty
    summary: str
    evidence: tuple[str, ...]
    advice: str


@dataclass(frozen=True, slots=True)
class Crashes:
    """The newest crashes of a task, wherever it ran."""

    index: int
    crashed_at: Sequence[datetime]
    error: str


class ContainerEvidence(NamedTuple):
    """A container that runs, or should run, tasks of the job. `others`: the tasks of other jobs there; `bad_others`:
    those of them that crashed, or whose host is silent. `bad_jobs`: the number of jobs of these. `registered_at`: when
    its present life began. `ended_hosts`: the Spark hosts that ended with the bad others; "" for what is bad by itself.
    """

    name: str
    is_live: bool
    availability: str
    availability_reason: str | None
    others: int
    bad_others: int
    bad_jobs: int
    registered_at: datetime | None = None
    ended_hosts: Sequence[str] = ()


class Gone(NamedTuple):
    """A container of the cell of which nothing was heard since `at`; or, if it `is_back`, whose present life began
    then."""

    name: str
    at: datetime
    is_back: bool


class Elsewhere(NamedTuple):
    """The tasks on all other containers of the cell, and how many of them are bad."""

    tasks: int
    bad: int


_NOTHING_KNOWN = Elsewhere(0, 0)


class Upstream(NamedTuple):
    """A job that writes a topic that this job reads."""

    job: str
    topic: str
    health: Health
    reason: str


class Attempts(NamedTuple):
    """How often the State Syncer has failed to make the change that is asked for. `reason`: of the newest failure;
    empty when it is not known any more. `next_at`: None when it is tried now, or not again."""

    failures: int
    fields: tuple[str, ...]
    reason: str
    next_at: datetime | None


class UnderWay(NamedTuple):
    """The recorded plan of a rescale or restore. `step`: as the plan records it, which may be `quiesce` for `level`.
    `detail`: the State Syncer's words for what it waits for, which begin with the name of the step."""

    step: str
    step_at: datetime
    fields: tuple[str, ...]
    revision: int
    detail: str
    is_restore: bool = False


class Minute(NamedTuple):
    """What the job measured in a minute. `crashes`: of tasks that were not healthy again. `restarts`: the crashes in
    this minute, of which `restarts_by_host` with a Spark host and `restarts_by_memory` for lack of memory.
    """

    at: datetime
    lag_seconds: float | None = None
    input_rows_per_second: float | None = None
    busy_share: float | None = None
    crashes: float | None = None
    restarts: float | None = None
    restarts_by_host: float | None = None
    restarts_by_memory: float | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known of a job, read at one moment.

    `config`: the running configuration, else the expected one. `settings`: each leaf of the expected configuration that
    a layer sets. `attempts`: None without one that failed. `under_way`: None while no rescale or restore has a plan.
    `changes`: the newest writes to the job, newest first.
    `owners`: by task, the container that owns its shard; None: nobody. `moved_at`: by task, when that owner got the
    shard, or nobody had it any more. `key_group_rates`: records per second, by key group. `gone`: containers that were
    lost, or began, lately. `is_open`: whether any live container takes shards. `is_alive`: whether any container sends
    heartbeats.
    """

    job: JobFacts
    verdict: Verdict
    moment: Moment
    config: Mapping[str, Any] = field(default_factory=dict)
    settings: Sequence[ExplainedLeafView] = ()
    attempts: Attempts | None = None
    under_way: UnderWay | None = None
    rejected: Rejected | None = None
    changes: Sequence[HistoryEntry] = ()
    tasks: Sequence[ReportedTask] = ()
    crashes: Sequence[Crashes] = ()
    owners: Mapping[int, str | None] = field(default_factory=dict)
    moved_at: Mapping[int, datetime] = field(default_factory=dict)
    shards: frozenset[int] = frozenset()
    containers: Sequence[ContainerEvidence] = ()
    elsewhere: Elsewhere = _NOTHING_KNOWN
    gone: Sequence[Gone] = ()
    is_open: bool = True
    is_alive: bool = True
    alerts: Sequence[AlertRow] = ()
    rounds: Sequence[LoopRound] = ()
    leaders: Sequence[Leader] = ()
    upstream: Sequence[Upstream] = ()
    key_group_rates: Sequence[float | None] = ()
    minutes: Sequence[Minute] = ()
    decision: DecisionView | None = None

    @property
    def is_well(self) -> bool:
        """Whether the job is healthy and runs what it should: then there is nothing to explain."""
        return self.verdict.health is Health.HEALTHY and self.verdict.converged

    def has(self, *healths: Health) -> bool:
        """Whether the job, or some task of it, has one of these healths."""
        return any(health in self.verdict.reasons for health in healths)

    def setting(self, path: str) -> ExplainedLeafView | None:
        """Who sets a field; None when it has its default."""
        return next((leaf for leaf in self.settings if leaf.field == path), None)

    def runs(self, leaf: ExplainedLeafView) -> bool:
        """Whether the running configuration has what a layer sets, and no plan is about to change it."""
        return not self.is_changing(leaf.field) and _value_at(self.config, leaf.path) == leaf.value

    def is_changing(self, name: str) -> bool:
        """Whether a plan that is under way changes a field."""
        return self.under_way is not None and name in self.under_way.fields

    @property
    def own_alerts(self) -> list[AlertRow]:
        """The open alerts about the job, its tasks and its layers."""
        job = self.job.job
        return [alert for alert in self.alerts if alert.subject == job or alert.subject.startswith(f"{job}/")]

    def alerts_of(self, *kinds: str) -> list[AlertRow]:
        """The open alerts of these kinds."""
        return [alert for alert in self.alerts if alert.kind in kinds]


def _value_at(config: Mapping[str, Any], path: Sequence[str]) -> Any:
    """The value at a path; the default where the configuration has none."""
    found: Any = config
    for name in path:
        if not isinstance(found, Mapping) or name not in found:
            row = row_for(tuple(path))
            return None if row is None or row.required else row.default
        found = found[name]
    return found


def lag_now(task: ReportedTask) -> Lag:
    """The lag of a running task; unknown of any other."""
    progress = task.progress
    if progress is None or task.state != TaskState.RUNNING:
        return Lag(None, None)
    return lag_of(*(progress.get(name) for name in MEASURED))


def is_lagging(facts: Facts, task: ReportedTask) -> bool:
    """Whether it is sure that a task is over the SLO."""
    at_least = lag_now(task).at_least
    return at_least is not None and at_least > facts.job.max_lag_seconds


def coming_in(facts: Facts) -> float | None:
    """Records per second that are written to the inputs, read or not; None where a key group is not measured."""
    rates = [rate for rate in facts.key_group_rates if rate is not None]
    return sum(rates) if rates and len(rates) == len(facts.key_group_rates) else None


def present(facts: Facts) -> list[ReportedTask]:
    """The tasks whose container is heard."""
    return [task for task in facts.tasks if heard(task, facts.moment) is Heard.PRESENT]


def has_failed(task: ReportedTask) -> bool:
    """Whether a task crashed and has not run well since."""
    batch_id = (task.progress or {}).get("batch_id")
    return task.crashes > 0 and not runs_well(task.state, batch_id)


def said_by(leaf: ExplainedLeafView) -> str:
    """Who set a field, when and why."""
    why = f" ({leaf.reason})" if leaf.reason else ""
    at = "" if leaf.written_at is None else f" at {leaf.written_at:%Y-%m-%d %H:%M} UTC"
    until = "" if leaf.expires_at is None else f", until {leaf.expires_at:%Y-%m-%d %H:%M} UTC"
    return f"the layer {leaf.layer} sets {leaf.field} to {leaf.value}: by {leaf.author or 'somebody'}{at}{why}{until}"


def numbers(found: Iterable[int]) -> str:
    """Task numbers for people: `0, 3, 4 and 9 more`."""
    ordered = sorted(set(found))
    shown = ", ".join(str(number) for number in ordered[:5])
    return shown if len(ordered) <= 5 else f"{shown} and {len(ordered) - 5} more"
