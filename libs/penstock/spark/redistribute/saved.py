"""A savepoint as the source of a redistribution. It is only read: nothing is claimed, finished or levelled."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.control.errors import BrokenCheckpoint
from penstock.spark.redistribute.old import task_specs
from penstock.spark.redistribute.positions import Generation, Position, SavedTask
from penstock.spark.savepoint.folder import read_manifest, savepoint_folder, task_folder
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import Layout, SavepointName


class SavedGeneration(Generation):
    """The tasks of a savepoint. Raises BrokenCheckpoint when it is missing or of another generation."""

    def __init__(self, runtime: Runtime, layout: Layout, name: SavepointName) -> None:
        folder = savepoint_folder(runtime.settings.checkpoint_root, name.job, name.name)
        tasks = [SavedTask(spec, task_folder(folder, spec.index)) for spec in task_specs(name.job, layout)]
        super().__init__(runtime, layout, tasks)
        # Without this check a missing savepoint would look like a job that has read nothing.
        manifest = read_manifest(folder, runtime.files)
        if manifest is None:
            raise BrokenCheckpoint(f"there is no savepoint {folder}")
        found = manifest.layout
        if (found.generation, found.ranges) != (layout.generation, layout.ranges):
            raise BrokenCheckpoint(f"the savepoint {folder} has generation {found.generation}, not {layout.generation}")

    def behind(self, positions: Sequence[Position]) -> int:
        """The number of tasks with state whose watermark is below the greatest. Their unread rows may be late."""
        return len(self.lagging(positions, lambda _: False))
