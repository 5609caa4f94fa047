"""A savepoint as the source of a redistribution. It is only read: nothing is claimed, finished or levelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.control.errors import BrokenCheckpoint
from penstock.spark.redistribute.bus import InputEnds
from penstock.spark.redistribute.level import Standing, lagging
from penstock.spark.redistribute.old import task_specs
from penstock.spark.redistribute.positions import Position, positions_of
from penstock.spark.savepoint.folder import read_manifest, savepoint_folder, task_folder
from penstock.spark.task import Runtime, checkpoint_files
from penstock.tasks.redistribution import Layout, SavepointName
from penstock.tasks.spec import TaskSpec


class SourceTask(Protocol):
    """A task whose checkpoint is read."""

    @property
    def spec(self) -> TaskSpec:
        """Its key groups and configuration."""
        ...

    @property
    def checkpoint(self) -> str:
        """The Hadoop path of its checkpoint."""
        ...


@dataclass(frozen=True)
class SavedTask:
    """A task in a savepoint."""

    spec: TaskSpec
    checkpoint: str


class SavedGeneration:
    """The tasks of a savepoint."""

    def __init__(self, runtime: Runtime, layout: Layout, name: SavepointName) -> None:
        self._runtime = runtime
        self._folder = savepoint_folder(runtime.settings.checkpoint_root, name.job, name.name)
        self._layout = layout
        self.tasks = [SavedTask(spec, task_folder(self._folder, spec.index)) for spec in task_specs(name.job, layout)]

    def positions(self) -> list[Position]:
        """The tasks' positions. Raises BrokenCheckpoint when the savepoint is missing or contradicts itself."""
        self._require_there()
        inputs = {source.topic: source for source in self._layout.config.inputs.values()}
        checkpoints = [(task.checkpoint, task.spec.key_groups) for task in self.tasks]
        ends = InputEnds(self._runtime.settings.kafka_bootstrap)
        return positions_of(checkpoints, checkpoint_files(self._runtime, self._folder), inputs, ends)

    def _require_there(self) -> None:
        """Without this check a missing savepoint would look like a job that has read nothing."""
        manifest = read_manifest(self._folder, checkpoint_files(self._runtime, self._folder))
        if manifest is None:
            raise BrokenCheckpoint(f"there is no savepoint {self._folder}")
        found, wanted = manifest.layout, self._layout
        if (found.generation, found.ranges) != (wanted.generation, wanted.ranges):
            raise BrokenCheckpoint(
                f"the savepoint {self._folder} has generation {found.generation}, not {wanted.generation}"
            )

    def behind(self, positions: Sequence[Position]) -> int:
        """The number of tasks with state whose watermark is below the greatest. Their unread rows may be late."""
        files = checkpoint_files(self._runtime, self._folder)
        if not any(files.names(f"{task.checkpoint}/state") for task in self.tasks):
            return 0
        return len(lagging([Standing(position.watermark_ms, at_end=False) for position in positions]))
