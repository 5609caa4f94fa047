"""What is asked of a host that redistributes a job's checkpoints, and what it answers."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from penstock.config.declare import Carried, Model, Name
from penstock.config.keygroups import KeyGroupRange
from penstock.config.model import JobConfig
from penstock.tasks.host_request import HostRequest


class SavepointName(Carried):
    """A savepoint, by the job it was taken of and its name. `number` distinguishes it from others that have had this
    name; it is None in older records."""

    job: Name
    name: Name
    number: int | None = None


class Layout(Carried):
    """One generation of a job's checkpoints: the configuration it runs with and each task's key groups, by index.

    With `savepoint` it is the immutable copy of that generation in a savepoint, perhaps of another job.
    """

    generation: int = Field(ge=1)
    config: JobConfig
    ranges: tuple[KeyGroupRange, ...] = Field(min_length=1)
    savepoint: SavepointName | None = None


class RedistributionReport(Carried):
    """What was done, after it was verified.

    `settled`: tasks whose pending batch had to be finished first. `levelled`: tasks that read on to a common
    watermark. `behind`: tasks that were left behind it, as `completeness: drop_late` asks. `state_rows`: rows of keyed
    state that were moved; after a copy, the rows of the copy. `changed_rows`: rows that changed since; None without a
    copy. `uncopied`: why a copy of the state was of no use; None when it was used, or there was none. `watermark_ms`:
    the watermark of the new tasks, None without one. `seconds`: by phase (`finish`, `level`, `move`, `verify`).
    """

    settled: int = 0
    levelled: int = 0
    behind: int = 0
    state_rows: int = 0
    changed_rows: int | None = None
    uncopied: str | None = None
    watermark_ms: int | None = None
    seconds: dict[str, float] = Field(default_factory=dict)


class LayoutChange(HostRequest):
    """What the requests have in common that bring keyed state from one layout to another. `state_bytes`: the size of
    the state as tasks reported it, None when unknown."""

    source: Layout
    target: Layout
    state_bytes: int | None = None

    @property
    def key_number(self) -> int:
        return self.target.generation

    @property
    def host_config(self) -> JobConfig:
        """Pending batches of the source's tasks are finished by their own query. A redistribution that follows a copy
        on the same host finds it warm."""
        return self.source.config

    @property
    def configs(self) -> tuple[JobConfig, ...]:
        return self.source.config, self.target.config

    @property
    def known_state_bytes(self) -> int | None:
        return self.state_bytes


class RedistributionRequest(LayoutChange):
    """Write the checkpoints of `target` from those of `source`: a savepoint, or a generation whose tasks have stopped.

    The two configurations differ in nothing but fields of kind `rescale`. The generation of `target` was never used
    before; whatever an earlier attempt left in it is of this same request and is written anew. `stopped_at`: the commit
    that stopped the tasks of `source`; a task that started after a later commit keeps its checkpoint. `seals`: the
    generation that will be sealed for `target`, where that is not `source` but a savepoint is.
    """

    Report: ClassVar[type[Model] | None] = RedistributionReport

    kind: Literal["redistribute"] = "redistribute"
    stopped_at: int | None = None
    seals: Layout | None = Field(None, exclude_if=lambda layout: layout is None)

    @property
    def writes_generation(self) -> int:
        return self.target.generation

    @property
    def after_commit(self) -> int | None:
        return self.stopped_at


class CopyReport(Carried):
    """What was copied and verified: nothing when the tasks have no state, or state that can only move at once.

    `changed`: the rows of each round of changes after the first. `unsealable`: why the source could not be sealed now,
    so that the job must not stop for the rescale; nothing was copied then.
    """

    rows: int = 0
    rounds: int = 0
    changed: tuple[int, ...] = ()
    seconds: float = 0.0
    unsealable: str | None = Field(None, exclude_if=lambda why: why is None)


class CopyRequest(LayoutChange):
    """Fill the state stores of `target` from those of `source`, whose tasks run: for a redistribution of the same two
    layouts, which then only brings the changes since. First it is asked whether `source` could be sealed."""

    Report: ClassVar[type[Model] | None] = CopyReport

    kind: Literal["copy_state"] = "copy_state"

    @property
    def fills_generation(self) -> int:
        return self.target.generation


class SealRequest(HostRequest):
    """Nothing of `layout` may ever commit again: neither to its checkpoints nor to what its sinks fence.

    `target`: what the job has instead, where its outputs are others: readers of topics that it left do not wait for it.
    """

    kind: Literal["seal"] = "seal"
    job: Name
    layout: Layout
    target: JobConfig | None = Field(None, exclude_if=lambda target: target is None)

    @property
    def key_number(self) -> int:
        return self.layout.generation

    @property
    def host_config(self) -> JobConfig:
        return self.layout.config


class GenerationRemoval(HostRequest):
    """Delete the checkpoints of a generation that no task of the job will run in again.

    `forgotten`: the job is forgotten. Otherwise the host checks that the generation is over, or never began.
    """

    kind: Literal["remove_generation"] = "remove_generation"
    job: Name
    generation: int = Field(ge=1)
    forgotten: bool = False

    @property
    def key_number(self) -> int:
        return self.generation

    @property
    def queue(self) -> str:
        """A removal, which may take long, holds up no other work for the job."""
        return f"{self.job}/g{self.generation}"

    @property
    def removes_generation(self) -> int:
        return self.generation
