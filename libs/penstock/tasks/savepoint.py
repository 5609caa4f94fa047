"""What is asked of a host that takes or removes a savepoint, and what it answers (DESIGN.md section 8)."""

from __future__ import annotations

from pydantic import Field

from penstock.config.model import Model
from penstock.tasks.redistribution import Layout


class SavepointRequest(Model):
    """Copy the checkpoints of `layout`, whether its tasks run or not, into the savepoint `name` of the job.

    `number` tells savepoints of one name apart: a savepoint of this number that is there already is the answer, one
    of a smaller number is replaced. `earlier`: names of the job's savepoints that may stand in for a task whose
    checkpoint cannot be copied, the best first.
    """

    job: str
    name: str
    number: int = Field(ge=1)
    layout: Layout
    earlier: tuple[str, ...] = ()


class SavepointRemoval(Model):
    """Delete the savepoint `name` of the job, unless it has a greater number by now."""

    job: str
    name: str
    number: int = Field(ge=1)


class SavedTask(Model):
    """One task in a savepoint: its last finished batch, None when it had finished none.

    `taken_from`: the savepoint that its copy is from, when its own checkpoint could not be copied; `why` that was.
    """

    index: int
    batch: int | None
    taken_from: str | None = None
    why: str | None = None


class SavepointReport(Model):
    """A savepoint that is whole and was verified. `bytes`: of all its files, also where they are links."""

    tasks: tuple[SavedTask, ...]
    bytes: int


class SavepointManifest(Model):
    """What a savepoint says of itself: `savepoint.json` in its folder."""

    job: str
    number: int
    layout: Layout
    report: SavepointReport
