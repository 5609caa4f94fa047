"""What a copy reads of running tasks: hard links to their files of state, or copies where there are no links.

    <root>/<job>/g<generation>/PINNED-<unique>/task-<index>/    of the new generation: like a task in a savepoint

A running task deletes a version of its state some ten batches later, and a copy of a large state takes far longer. So
the versions that a copy begins with are pinned at once, and every change since as soon as its batch is finished.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from penstock.control.errors import BrokenCheckpoint
from penstock.control.logs import logger
from penstock.control.repeat import repeating
from penstock.spark.checkpoint import last_commit, planned_batch
from penstock.spark.files import Files
from penstock.spark.redistribute.stores import OldState, operators_of, partitions_of
from penstock.spark.savepoint.content import content_of
from penstock.spark.task import Runtime
from penstock.tasks.spec import TaskSpec

log = logger(__name__)

PINNED = "PINNED-"
_ATTEMPTS = 3
# Spark keeps ten batches, and looks every minute for what it may delete.
_FOLLOW_SECONDS = 1.0
_ENDINGS = {"heap": "delta", "rocksdb": "changelog"}


@dataclass
class _Task:
    """An old task: its checkpoint, the folder of its pins, the stores below both, and what is pinned of it by now."""

    spec: TaskSpec
    checkpoint: str
    folder: str
    stores: tuple[str, ...] = ()
    state: OldState | None = None


class Pins:
    """The state of running tasks, in files that stay until `remove`. `folder`: of the new generation."""

    def __init__(self, runtime: Runtime, specs: Sequence[TaskSpec], folder: str) -> None:
        self._files = runtime.files
        self._folder = f"{folder}/{PINNED}{uuid.uuid4().hex}"
        self._tasks = [
            _Task(spec, runtime.checkpoint(spec.job, spec.generation, spec.index), f"{self._folder}/task-{spec.index}")
            for spec in specs
        ]
        self._has_begun = False
        self._lock = threading.Lock()

    def states(self) -> list[OldState]:
        """The state of each task that has finished a batch, after the last one that it has finished by now.

        Raises BrokenCheckpoint when a task has deleted a version before it was pinned.
        """
        with self._lock:
            for task in self._tasks:
                self._follow(task)
            self._has_begun = True
            return [task.state for task in self._tasks if task.state is not None]

    def following(self) -> AbstractContextManager[None]:
        """Pins meanwhile what the tasks change. A failure shows in the next call of `states`."""
        return repeating("copy-pins", self._follow_all, _FOLLOW_SECONDS)

    def remove(self) -> None:
        """Nothing is read any more."""
        self._files.delete(self._folder)

    def _follow_all(self) -> None:
        try:
            self.states()
        except Exception:
            log.warning("changes of state are not pinned", exc_info=True)

    def _follow(self, task: _Task) -> None:
        batch = last_commit(task.checkpoint, self._files)
        if batch is None:
            return
        if task.state is None:
            task.state = self._begin(task)
            if self._has_begun:
                # The changes since the last round are all that there are, of a task that had finished no batch then.
                self._pin_changes(task, range(1, task.state.version + 1))
        elif batch + 1 > task.state.version:
            self._pin_changes(task, range(task.state.version + 1, batch + 2))
            task.state = task.state._replace(batch_id=batch)

    def _begin(self, task: _Task) -> OldState:
        """Pins all that the task needs after its last finished batch. It may go on, and delete files meanwhile."""
        for left in reversed(range(_ATTEMPTS)):
            try:
                return self._pin_all(task)
            except (FileNotFoundError, BrokenCheckpoint):
                if not left:
                    raise
        raise AssertionError("one attempt at least")

    def _pin_all(self, task: _Task) -> OldState:
        self._files.delete(task.folder)
        content = content_of(task.checkpoint, task.folder, self._files)
        for name in content.files:
            self._files.copy(f"{task.checkpoint}/{name}", f"{task.folder}/{name}")
        assert content.batch is not None
        metadata = planned_batch(task.folder, content.batch, self._files).metadata
        operators = operators_of(task.folder, self._files)
        stores = [store for operator in operators for store in operator.stores]
        task.stores = tuple(store.folder(number) for store in stores for number in range(partitions_of(metadata)))
        return OldState(task.folder, task.spec.key_groups, content.batch, metadata)

    def _pin_changes(self, task: _Task, versions: Iterable[int]) -> None:
        """Of finished batches only: a batch that is repeated writes its changes anew."""
        wanted = [f"{version}.{_ENDINGS[task.spec.config.state_backend]}" for version in versions]
        for store in task.stores:
            pinned = self._files.names(f"{task.folder}/{store}")
            for name in [name for name in wanted if name not in pinned]:
                self._pin(f"{task.checkpoint}/{store}/{name}", f"{task.folder}/{store}/{name}")

    def _pin(self, path: str, target: str) -> None:
        try:
            self._files.copy(path, target)
        except FileNotFoundError:
            raise BrokenCheckpoint(f"{path} was deleted before its changes were copied") from None


def remove_pins(files: Files, folder: str) -> None:
    """Removes those that a copy which died has left in the folder of its generation."""
    for name in files.names(folder):
        if name.startswith(PINNED):
            files.delete(f"{folder}/{name}")
