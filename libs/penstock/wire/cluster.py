"""What Task Managers, the Shard Manager and the Task Service say to each other over HTTP.

Shard Manager (7073): POST /v1/heartbeats (HeartbeatRequest -> HeartbeatAnswer; 503 when not the leader, and then the
                      problem's `leader` is the url to ask instead, when it is known)
Task Service  (7072): GET  /v1/specs?after=N&wait_seconds=S (Snapshot; `after` absent: full; ETag, gzip)
                      POST /v1/reports (TaskReportBatch -> 204)
Task Manager (7100+): POST /v1/shards/drop, /v1/shards/add (ShardOrders -> ShardAnswers), GET /v1/tasks
                      POST /v1/shards/{shard}/drop, /add (ShardOrder -> ShardAnswer): the same for one shard
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field

from penstock.config.model import Model
from penstock.tasks.shards import Sharding
from penstock.tasks.spec import TaskTemplate


class Capacity(Model):
    """What a container offers. `further`: amounts of other dimensions by name (`penstock.tasks.dimensions`)."""

    cpu_cores: float
    memory_bytes: int
    disk_bytes: int
    further: dict[str, float] = Field(default_factory=dict)


class HeartbeatRequest(Model):
    """One heartbeat of a container.

    `incarnation` names one life of the Task Manager process. `held` maps each shard it runs to the assignment
    epoch it got it with; `dropped` each shard that it gave up to the epoch of the DROP that it obeyed (or that it held
    it with, when an answer no longer listed the shard). A life that was never answered holds and dropped nothing:
    only such a one may take the place of a former life. `shard_count`: of how many shards it speaks; 0: it was never
    told any. `start_seconds`: the median of its latest task starts, None where there were too few to tell.
    """

    container: str
    incarnation: str
    url: str
    region: str
    capacity: Capacity
    labels: dict[str, str] = Field(default_factory=dict)
    held: dict[int, int]
    dropped: dict[int, int] = Field(default_factory=dict)
    shard_count: int = 0
    start_seconds: float | None = None


class HeartbeatAnswer(Model):
    """What the container owns: shard to assignment epoch.

    `version` is the highest assignment epoch the Shard Manager knew when it answered: a container ignores any
    answer or order older than the newest it has seen. `lease_seconds` runs from the moment the request was sent.
    `known` is False when this incarnation was declared lost or replaced: it must stop everything and start anew,
    empty, as another incarnation.
    `commit_number` is a commit of the running table, no older than the newest one when the container joined. What was
    stopped by then was stopped without it, so a container that has just joined starts nothing from older specs.
    `shard_count` and `regions`, which holds selectors, say how tasks are shared out to these shards (`sharding`); both
    change, and each change takes a new `version`.
    """

    known: bool
    version: int
    shard_count: int
    lease_seconds: float
    shards: dict[int, int]
    commit_number: int = 0
    regions: tuple[str, ...] = ()

    @property
    def sharding(self) -> Sharding:
        """How tasks are shared out to the shards."""
        return Sharding(self.shard_count, self.regions)


class ShardOrder(Model):
    """DROP_SHARD or ADD_SHARD: the shard's assignment epoch and the leader epoch of the Shard Manager that orders."""

    container: str
    incarnation: str
    epoch: int
    version: int
    leader_epoch: int
    shard_count: int


class ShardAnswer(Model):
    """SUCCESS (`done`), with the tasks that were stopped or will be started."""

    done: bool
    tasks: tuple[str, ...] = ()


class ShardOrders(Model):
    """DROP_SHARD or ADD_SHARD of many shards in one call; `shards` maps shard to assignment epoch.

    DROP: the epoch under which the container owns the shard now. It stops the shard's tasks, forgets the shard, lists
    it under `dropped` in its heartbeats and takes it again only under a higher epoch; what still runs
    `deadline_seconds` after the order came is killed. A shard that it does not hold is dropped already.
    ADD: the epoch under which the container owns the shard from now on.
    An order for another incarnation is refused with 409; one with a `leader_epoch` below the highest seen, too, and one
    that speaks of another `shard_count` than the container was told last: the shard of that number is another one.
    """

    container: str
    incarnation: str
    shards: dict[int, int]
    version: int
    leader_epoch: int
    shard_count: int
    deadline_seconds: float = Field(10.0, gt=0)


class ShardAnswers(Model):
    """`tasks` maps each shard that is done to its tasks that were stopped or will be started; others are not done."""

    tasks: dict[int, tuple[str, ...]]


class TaskState(StrEnum):
    """A task as its container sees it. HELD: it is not started, since the container is not what the job asks for."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    CRASHED = "crashed"
    HELD = "held"


class KeyGroupRates(Model):
    """Records that came per second into each of a task's key groups, from `first` on, over the last `seconds`.

    Offsets are counted, so the markers of transactions are too; topics of several inputs are summed.
    """

    first: int
    records_per_second: tuple[float, ...]
    seconds: float


class TaskProgress(Model):
    """Measurements of a task's last micro-batches; None is unknown, never zero."""

    batch_id: int | None = None
    batch_seconds: float | None = None
    input_rows: int | None = None
    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None
    input_bytes_per_second: float | None = None
    backlog_records: int | None = None
    backlog_bytes: int | None = None
    oldest_unread_seconds: float | None = None
    watermark: str | None = None
    state_rows: int | None = None
    state_memory_bytes: int | None = None
    late_rows_dropped: int | None = None
    event_time_skew_seconds: float | None = None
    offsets: dict[str, dict[str, int]] = Field(default_factory=dict)
    key_group_rates: KeyGroupRates | None = None
    observed_at: str | None = None


class TaskReport(Model):
    """One task as its container runs it. `epoch` is the assignment epoch under which it was started.

    `load`: its use by dimension (`penstock.tasks.dimensions`), a missing one is unknown; None: as it was last told.
    """

    job: str
    index: int
    state: TaskState
    revision: int
    generation: int
    restarts: int
    epoch: int
    crashes: int = 0
    error: str | None = None
    out_of_memory: bool = False
    progress: TaskProgress | None = None
    load: dict[str, float] | None = None


class TaskReportBatch(Model):
    """ALL tasks of a container at one moment: a task not listed does not run there.

    `commit_number` is the newest running-table commit that the container has applied, `version` the assignment
    version; an absent task is evidence of a stop only when both are new enough.
    """

    container: str
    incarnation: str
    commit_number: int
    version: int
    tasks: tuple[TaskReport, ...]


class Snapshot(Model):
    """Templates above `after` (all of them when `full`), up to `commit_number`. `removed` names forgotten jobs.

    `unreadable` names the jobs whose row could not be read and that are not listed for that reason: they exist, and
    a container goes on with what it knows of them. `shard_count` is a hint, that of the moment: which task is in which
    shard is said only by who says which shards are a container's.
    """

    full: bool
    commit_number: int
    shard_count: int
    templates: tuple[TaskTemplate, ...]
    removed: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


def as_json(model: Model) -> Any:
    """The JSON-ready form of a wire model."""
    return model.model_dump(mode="json")
