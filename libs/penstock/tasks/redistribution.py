"""What is asked of a host that redistributes a job's checkpoints, and what it answers (DESIGN.md section 8)."""

from __future__ import annotations

from pydantic import Field

from penstock.config.model import JobConfig, Model
from penstock.tasks.keygroups import KeyGroupRange


class SavepointName(Model):
    """A savepoint, by the job it was taken of and its name."""

    job: str
    name: str


class Layout(Model):
    """One generation of a job's checkpoints: the configuration it runs with and each task's key groups, by index.

    With `savepoint` it is the immutable copy of that generation in a savepoint, perhaps of another job.
    """

    generation: int = Field(ge=1)
    config: JobConfig
    ranges: tuple[KeyGroupRange, ...] = Field(min_length=1)
    savepoint: SavepointName | None = None


class RedistributionRequest(Model):
    """Write the checkpoints of `target` from those of `source`: a savepoint, or a generation whose tasks have stopped.

    The two configurations differ in nothing but fields of kind `rescale`. The generation of `target` was never used
    before; whatever an earlier attempt left in it is of this same request and is written anew.
    """

    job: str
    source: Layout
    target: Layout


class RedistributionReport(Model):
    """What was done, after it was verified.

    `settled`: tasks whose pending batch had to be finished first. `levelled`: tasks that read on to a common
    watermark. `behind`: tasks that were left behind it, as `completeness: drop_late` asks. `state_rows`: rows of keyed
    state that moved. `watermark_ms`: the watermark of the new tasks, None without one. `seconds`: by phase (`settle`,
    `level`, `move`, `verify`).
    """

    settled: int = 0
    levelled: int = 0
    behind: int = 0
    state_rows: int = 0
    watermark_ms: int | None = None
    seconds: dict[str, float] = Field(default_factory=dict)


class SealRequest(Model):
    """Nothing of `layout` may ever commit again: neither to its checkpoints nor to what its sinks fence."""

    job: str
    layout: Layout


class GenerationRemoval(Model):
    """Delete the checkpoints of a generation that no task of the job will run in again.

    `forgotten`: the job is. Else the host wants to see that the generation is over, or never began.
    """

    job: str
    generation: int = Field(ge=1)
    forgotten: bool = False
