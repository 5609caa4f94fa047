"""Takes and removes savepoints: immutable copies of a job's checkpoints.

<root>/<job>/savepoints/<name>/
    savepoint.json      SavepointManifest
    task-<index>/       a checkpoint as Spark would leave it after the last finished batch

A job's tasks may run meanwhile, since published files are never written again.

Each task is copied as of its last finished batch and verified. The folder then gets its name in one step. A batch that
is planned but not finished is not part of a savepoint. Checkpoints are not claimed, so running tasks are not disturbed.
"""

from __future__ import annotations

import uuid

from py4j.protocol import Py4JJavaError
from pydantic import ValidationError

from penstock.control.errors import BrokenCheckpoint, Fenced
from penstock.control.logs import logger
from penstock.spark.files import Files
from penstock.spark.savepoint.content import Content, content_of
from penstock.spark.task import Runtime
from penstock.tasks.savepoint import (
    SavedTask,
    SavepointManifest,
    SavepointRemoval,
    SavepointReport,
    SavepointRequest,
)

log = logger(__name__)

MANIFEST = "savepoint.json"

# A running task deletes old versions. If it deletes one during the copy, the copy is tried again.
_ATTEMPTS = 3
_Unreadable = (BrokenCheckpoint, OSError, ValueError, KeyError, Py4JJavaError)


def savepoints_folder(root: str, job: str) -> str:
    """The Hadoop path of all savepoints of a job."""
    return f"{root.rstrip('/')}/{job}/savepoints"


def savepoint_folder(root: str, job: str, name: str) -> str:
    """The Hadoop path of a savepoint."""
    return f"{savepoints_folder(root, job)}/{name}"


def task_folder(savepoint: str, index: int) -> str:
    """The Hadoop path of a task's checkpoint in a savepoint."""
    return f"{savepoint}/task-{index}"


def read_manifest(savepoint: str, files: Files) -> SavepointManifest | None:
    """The manifest of a savepoint; None if there is no savepoint. Raises BrokenCheckpoint if it cannot be read."""
    try:
        return SavepointManifest.model_validate_json(files.read(f"{savepoint}/{MANIFEST}"))
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise BrokenCheckpoint(f"{savepoint}/{MANIFEST} cannot be read: {error}") from error


def take(runtime: Runtime, request: SavepointRequest) -> SavepointReport:
    """Copies a job's checkpoints; safe to repeat, also by two hosts at once.

    Raises BrokenCheckpoint when a task can be copied neither from its checkpoint nor from an earlier savepoint, and
    Fenced when a newer savepoint has this name.
    """
    return _Taking(runtime, request).run()


def remove(runtime: Runtime, request: SavepointRemoval) -> None:
    """Deletes a savepoint and its unfinished attempts; safe to repeat. Raises Fenced when a newer one has the name."""
    files, root = runtime.files, runtime.settings.checkpoint_root
    folder = savepoint_folder(root, request.job, request.name)
    _require_not_newer(read_manifest(folder, files), request.number, folder)
    files.delete(folder)
    parent = savepoints_folder(root, request.job)
    for name in files.names(parent):
        if name.startswith(_attempts_at(request.name)):
            files.delete(f"{parent}/{name}")
    log.info("savepoint removed", job=request.job, savepoint=request.name)


class _Taking:
    def __init__(self, runtime: Runtime, request: SavepointRequest) -> None:
        self._runtime = runtime
        self._root = runtime.settings.checkpoint_root
        self._request = request
        self._files = runtime.files
        self._folder = savepoint_folder(self._root, request.job, request.name)
        self._attempt = f"{savepoints_folder(self._root, request.job)}/{_attempts_at(request.name)}{uuid.uuid4().hex}"
        self._bytes = 0

    def run(self) -> SavepointReport:
        """The savepoint that is there, or a new one."""
        found = read_manifest(self._folder, self._files)
        if found is not None and found.number == self._request.number:
            return found.report
        _require_not_newer(found, self._request.number, self._folder)
        try:
            tasks = tuple(self._save(index) for index in range(len(self._request.layout.ranges)))
            report = SavepointReport(tasks=tasks, bytes=self._bytes)
            self._publish(report)
        finally:
            self._files.delete(self._attempt)
        log.info("savepoint taken", job=self._request.job, savepoint=self._request.name, bytes=report.bytes)
        return report

    def _publish(self, report: SavepointReport) -> None:
        request = self._request
        manifest = SavepointManifest(job=request.job, number=request.number, layout=request.layout, report=report)
        self._files.write(f"{self._attempt}/{MANIFEST}", manifest.model_dump_json().encode())
        # What has the name is of a smaller number: it was to be removed before.
        self._files.delete(self._folder)
        if not self._files.publish(self._attempt, self._folder):
            raise Fenced(f"FENCED: another host took the savepoint {self._folder} at the same time")

    def _save(self, index: int) -> SavedTask:
        request = self._request
        checkpoint = self._runtime.checkpoint(request.job, request.layout.generation, index)
        try:
            return SavedTask(index=index, batch=self._copy(checkpoint, index))
        except _Unreadable as error:
            log.warning("a checkpoint cannot be copied", task=f"{request.job}/{index}", exc_info=error)
            return self._stand_in(index, _reason(error))

    def _stand_in(self, index: int, why: str) -> SavedTask:
        """The task from the best earlier savepoint of the same generation. Raises BrokenCheckpoint without one."""
        request = self._request
        for name in request.earlier:
            earlier = savepoint_folder(self._root, request.job, name)
            try:
                manifest = read_manifest(earlier, self._files)
                if manifest is None or manifest.layout.generation != request.layout.generation:
                    continue
                batch = self._copy(task_folder(earlier, index), index)
            except _Unreadable as error:
                log.warning("an earlier savepoint is of no use", savepoint=name, exc_info=error)
                continue
            origin = manifest.report.tasks[index].taken_from or name
            return SavedTask(index=index, batch=batch, taken_from=origin, why=why)
        raise BrokenCheckpoint(
            f"the checkpoint of {request.job}/{index} cannot be copied, and no earlier savepoint has the task: {why}"
        )

    def _copy(self, checkpoint: str, index: int) -> int | None:
        """Copies a checkpoint and reads the copy as a restore would. Returns the last finished batch."""
        copied = task_folder(self._attempt, index)
        for left in reversed(range(_ATTEMPTS)):
            self._files.delete(copied)
            try:
                content = content_of(checkpoint, task_folder(self._folder, index), self._files)
                self._fill(checkpoint, copied, content)
                break
            except FileNotFoundError:
                if not left:
                    raise
        self._require_same(copied, index, content)
        self._bytes += sum(content.files.values())
        return content.batch

    def _fill(self, checkpoint: str, copied: str, content: Content) -> None:
        for name in content.files:
            self._files.copy(f"{checkpoint}/{name}", f"{copied}/{name}")
        for name, text in content.moved.items():
            self._files.write(f"{copied}/{name}", text)

    def _require_same(self, copied: str, index: int, content: Content) -> None:
        found = content_of(copied, task_folder(self._folder, index), self._files)
        if found != content:
            raise BrokenCheckpoint(f"{copied} differs from the checkpoint that was copied")


def _attempts_at(name: str) -> str:
    return f".{name}~"


def _reason(error: Exception) -> str:
    return getattr(error, "detail", None) or str(error).splitlines()[0]


def _require_not_newer(found: SavepointManifest | None, number: int, folder: str) -> None:
    if found is not None and found.number > number:
        raise Fenced(f"FENCED: {folder} has the savepoint number {found.number}, newer than {number}")
