"""What is asked of a host that takes or removes a savepoint, and what it answers."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from penstock.config.declare import Carried, Model, Name
from penstock.config.model import JobConfig
from penstock.control.texts import Text
from penstock.tasks.host_request import HostRequest
from penstock.tasks.redistribution import Layout


class SavedTask(Carried):
    """One task in a savepoint: its last finished batch, None when it had finished none.

    `taken_from`: the savepoint that its copy is from, when its own checkpoint could not be copied; `why` that was.
    `unfinished`: the batch that an application whose checkpoint was imported had planned and not finished. The job
    reads its rows again.
    """

    index: int
    batch: int | None
    taken_from: Name | None = None
    why: Text | None = None
    unfinished: int | None = Field(None, exclude_if=lambda batch: batch is None)


class SavepointReport(Carried):
    """A savepoint that is whole and was verified. `bytes`: of all its files, also where they are links."""

    tasks: tuple[SavedTask, ...]
    bytes: int


class NewSavepoint(HostRequest):
    """What is asked of a host that makes the savepoint `name` of the job, of tasks of `layout`.

    `number` tells savepoints of one name apart: a savepoint of this number that is there already is the answer, one
    of a smaller number is replaced.
    """

    Report: ClassVar[type[Model] | None] = SavepointReport

    job: Name
    name: Name
    number: int = Field(ge=1)
    layout: Layout

    @property
    def key_number(self) -> int:
        return self.number


class SavepointRequest(NewSavepoint):
    """Copy the checkpoints of `layout`, whether its tasks run or not, into a savepoint.

    `earlier`: names of the job's savepoints that may stand in for a task whose checkpoint cannot be copied, the best
    first. `state_bytes`: the size of the state as tasks reported it, None when unknown.
    """

    kind: Literal["take_savepoint"] = "take_savepoint"
    earlier: tuple[Name, ...] = ()
    state_bytes: int | None = None

    @property
    def known_state_bytes(self) -> int | None:
        return self.state_bytes


class ImportRequest(NewSavepoint):
    """Copy the checkpoint of a Spark application, a Hadoop path, into a savepoint of one task.

    Its query must be the job's, and must read the job's inputs by Spark's own Kafka source or by Penstock's.
    """

    kind: Literal["import_checkpoint"] = "import_checkpoint"
    checkpoint: str = Field(min_length=1)

    @property
    def host_config(self) -> JobConfig:
        """The checkpoint is compared with the job's query."""
        return self.layout.config


class SavepointRemoval(HostRequest):
    """Delete the savepoint `name` of the job, unless it has a greater number by now."""

    kind: Literal["remove_savepoint"] = "remove_savepoint"
    job: Name
    name: Name
    number: int = Field(ge=1)

    @property
    def key_number(self) -> int:
        return self.number


class SavepointManifest(Carried):
    """What a savepoint says of itself: `savepoint.json` in its folder."""

    job: Name
    number: int
    layout: Layout
    report: SavepointReport
