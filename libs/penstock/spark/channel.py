"""The local channel between a Task Manager (supervisor) and a Spark host: JSON lines over two pipes.

The supervisor starts `python -m penstock.spark.host --commands FD --events FD --name NAME ...`; commands go
down one pipe, events come up the other. End of file on the command pipe means that the supervisor is gone: the
host kills its JVM and exits. Every command carries an `id`; exactly one `Reply` with that id answers it. Other
events are sent unasked: `Ready` once, `Progress` once a second, `Loads` every 10 seconds, `TaskEnded` when a query
ends by itself.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from penstock.config.model import Model
from penstock.tasks.redistribution import GenerationRemoval, RedistributionRequest, SealRequest
from penstock.tasks.savepoint import SavepointRemoval, SavepointRequest
from penstock.tasks.sinks import SinkRequest
from penstock.tasks.spec import TaskSpec
from penstock.wire.cluster import TaskProgress


class Start(Model):
    """Run `spec` as a streaming query, fenced by `epoch` (the shard's assignment epoch)."""

    type: Literal["start"] = "start"
    id: int
    spec: TaskSpec
    epoch: int


class Stop(Model):
    """Stop a task at a batch boundary: a pending batch is finished (settled) unless `settle` is False."""

    type: Literal["stop"] = "stop"
    id: int
    task_id: str
    settle: bool = False


class Live(Model):
    """Apply a live change: the task's spec from now on is `spec` (nothing is restarted)."""

    type: Literal["live"] = "live"
    id: int
    spec: TaskSpec


class Lease(Model):
    """The container's lease is good for `seconds`; without a newer one the host ends itself.

    The seconds count from `sent_at` on the boot clock (`SystemClock.monotonic`, the same on both ends of the pipe),
    or from the arrival when it is absent: so a command that waited in the pipe grants no more than was meant.
    """

    type: Literal["lease"] = "lease"
    id: int
    seconds: float
    sent_at: float | None = None


class ListTasks(Model):
    """Ask for the tasks that run."""

    type: Literal["list"] = "list"
    id: int


class Redistribute(Model):
    """Write another generation of a job's checkpoints; the result is a `RedistributionReport`. Safe to repeat."""

    type: Literal["redistribute"] = "redistribute"
    id: int
    request: RedistributionRequest


class Seal(Model):
    """End a generation for good. Safe to repeat."""

    type: Literal["seal"] = "seal"
    id: int
    request: SealRequest


class RemoveGeneration(Model):
    """Delete the checkpoints of an old generation. Safe to repeat."""

    type: Literal["remove_generation"] = "remove_generation"
    id: int
    request: GenerationRemoval


class TakeSavepoint(Model):
    """Copy a job's checkpoints; the result is a `SavepointReport`. Safe to repeat."""

    type: Literal["take_savepoint"] = "take_savepoint"
    id: int
    request: SavepointRequest


class RemoveSavepoint(Model):
    """Delete a savepoint. Safe to repeat."""

    type: Literal["remove_savepoint"] = "remove_savepoint"
    id: int
    request: SavepointRemoval


class Initialize(Model):
    """Make a job's output before its tasks start. Safe to repeat."""

    type: Literal["initialize"] = "initialize"
    id: int
    request: SinkRequest


Work = Redistribute | Seal | RemoveGeneration | TakeSavepoint | RemoveSavepoint | Initialize


class Exit(Model):
    """Stop all tasks and end the process."""

    type: Literal["exit"] = "exit"
    id: int


Command = Annotated[Start | Stop | Live | Lease | ListTasks | Work | Exit, Field(discriminator="type")]


class Ready(Model):
    """The session is up."""

    type: Literal["ready"] = "ready"
    pid: int
    jvm_pid: int


class Reply(Model):
    """The one answer to the command `id`. `error_kind`: `broken_task`, `fenced`, `retryable`."""

    type: Literal["reply"] = "reply"
    id: int
    ok: bool
    error: str | None = None
    error_kind: str | None = None
    result: dict[str, Any] = Field(default_factory=dict)


class Progress(Model):
    """Progress of every running task that has any, by task id."""

    type: Literal["progress"] = "progress"
    tasks: dict[str, TaskProgress]


class Loads(Model):
    """What running tasks use at present: amounts by dimension (`penstock.tasks.dimensions`), by task id."""

    type: Literal["loads"] = "loads"
    tasks: dict[str, dict[str, float]]


class TaskEnded(Model):
    """A query ended by itself. `error_kind` as in `Reply`."""

    type: Literal["ended"] = "ended"
    task_id: str
    error: str
    error_kind: str
    out_of_memory: bool = False


Event = Annotated[Ready | Reply | Progress | Loads | TaskEnded, Field(discriminator="type")]

COMMANDS: TypeAdapter[Command] = TypeAdapter(Command)
EVENTS: TypeAdapter[Event] = TypeAdapter(Event)
