"""The local channel between a Task Manager (supervisor) and a Spark host: JSON lines over two pipes.

The supervisor starts `python -m penstock.spark.host --commands FD --events FD --name NAME ...`; commands go
down one pipe, events come up the other. End of file on the command pipe means that the supervisor is gone: the
host kills its JVM and exits. Every command carries an `id`; exactly one `Reply` with that id answers it. Other
events are sent unasked: `Ready` once, `Progress` once a second, `Loads` every 10 seconds, `TaskEnded` when a query
ends by itself, `HostTaskProgress` when a host task that takes long has come further.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from penstock.config.declare import Model
from penstock.model.reports import TaskProgress
from penstock.tasks.host_task import HostTask
from penstock.tasks.spec import TaskSpec


class Access(Model):
    """What the container keeps and the job of a command uses: URLs of connections and values of secrets, by name.

    The supervisor adds it as it writes the command (`penstock.spark.access`). It goes down the pipe and nowhere else:
    the environment and the command line of a host can be read by all jobs' code in it.
    """

    model_config = ConfigDict(hide_input_in_errors=True)

    connections: dict[str, str] = Field(default_factory=dict, repr=False)
    secrets: dict[str, str] = Field(default_factory=dict, repr=False)


class Start(Model):
    """Run `spec` as a streaming query, fenced by `epoch` (the shard's assignment epoch).

    `commit_number` is the commit that asks for the task: work that follows an older commit cannot take over from it.
    """

    type: Literal["start"] = "start"
    id: int
    spec: TaskSpec
    epoch: int
    commit_number: int = 0
    access: Access = Access()


class Prepare(Model):
    """Make ahead what a later `Start` with this spec needs, as far as that is possible before the task may run.

    Nothing is claimed or published, no task runs then or counts as running, and the start does not rely on it.
    """

    type: Literal["prepare"] = "prepare"
    id: int
    spec: TaskSpec
    access: Access = Access()


class GiveUp(Model):
    """Give up what was made ahead for a task of this generation: its rescale was taken back. Safe to repeat."""

    type: Literal["give_up"] = "give_up"
    id: int
    task_id: str
    generation: int


class Stop(Model):
    """Stop a task at a batch boundary. With `finish_pending`, a batch that is planned but not committed is finished."""

    type: Literal["stop"] = "stop"
    id: int
    task_id: str
    finish_pending: bool = False


class Live(Model):
    """Apply a live change: the task's spec from now on is `spec` (nothing is restarted). A task whose spec is quiescing
    takes no more rows (`TaskTemplate.level_ms`)."""

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


class RunHostTask(Model):
    """Do some work for the control plane; the result is the kind's `Report`. Safe to repeat."""

    type: Literal["host_task"] = "host_task"
    id: int
    task: HostTask
    access: Access = Access()


class CancelHostTask(Model):
    """The host task of this key must not begin, nor take a checkpoint over. Handled at once, before queued work."""

    type: Literal["cancel_host_task"] = "cancel_host_task"
    id: int
    key: str


class Exit(Model):
    """Stop all tasks and end the process."""

    type: Literal["exit"] = "exit"
    id: int


Command = Annotated[
    Start | Prepare | GiveUp | Stop | Live | Lease | RunHostTask | CancelHostTask | Exit, Field(discriminator="type")
]


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


class HostTaskProgress(Model):
    """How far the host task of the command `id` is, in words for people."""

    type: Literal["host_task_progress"] = "host_task_progress"
    id: int
    text: str


class Progress(Model):
    """Progress of every running task that has any, by task id. Sent also when none has: the JVM has answered."""

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


Event = Annotated[Ready | Reply | HostTaskProgress | Progress | Loads | TaskEnded, Field(discriminator="type")]

COMMANDS: TypeAdapter[Command] = TypeAdapter(Command)
EVENTS: TypeAdapter[Event] = TypeAdapter(Event)
