"""Takes and removes savepoints: immutable copies of a job's checkpoints.

<root>/<job>/savepoints/<name>/
    savepoint.json      SavepointManifest
    task-<index>/       a checkpoint as Spark would leave it after the last finished batch
<root>/<job>/savepoints/.<name>~<number>-<unique>/
                        an attempt at a savepoint of this number, or what had the name before; on stores without
                        folders (`penstock.spark.hadoop`) the savepoint itself, to which <name> is a link

A job's tasks may run meanwhile, since published files are never written again.

Each task is copied as of its last finished batch and verified. The folder then gets its name in one step. A batch that
is planned but not finished is not part of a savepoint. Checkpoints are not claimed, so running tasks are not disturbed.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod

from py4j.protocol import Py4JJavaError
from pydantic import ValidationError

from penstock.control.errors import BrokenCheckpoint, Fenced
from penstock.control.logs import logger
from penstock.spark.files import Files
from penstock.spark.savepoint.content import Content, content_of
from penstock.spark.task import Runtime
from penstock.tasks.savepoint import (
    NewSavepoint,
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
        return SavepointManifest.model_validate_json(files.read(f"{files.resolve(savepoint)}/{MANIFEST}"))
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise BrokenCheckpoint(f"{savepoint}/{MANIFEST} cannot be read: {error}") from error


def take(runtime: Runtime, request: SavepointRequest) -> SavepointReport:
    """Copies a job's checkpoints; safe to repeat, also by two hosts at once, of which one may hang for any time.

    Raises BrokenCheckpoint when a task can be copied neither from its checkpoint nor from an earlier savepoint, Fenced
    when a newer savepoint has this name, and what `Runtime.before_claim` raises.
    """
    return _OfJob(runtime, request).run()


def remove(runtime: Runtime, request: SavepointRemoval) -> None:
    """Deletes a savepoint and its unfinished attempts; safe to repeat.

    Raises Fenced when a newer one has the name, and what `Runtime.before_claim` raises between two folders.
    """
    files, root = runtime.files, runtime.settings.checkpoint_root
    folder = savepoint_folder(root, request.job, request.name)
    found = _read_not_newer(folder, request.number, files)
    runtime.before_claim()
    _put_aside(folder, found, _new_attempt(folder, request.number), files)
    parent = savepoints_folder(root, request.job)
    for attempt in [f"{parent}/{name}" for name in files.names(parent) if _is_attempt_at(name, request)]:
        for name in files.names(attempt):
            runtime.before_claim()
            files.delete(f"{attempt}/{name}")
        files.delete(attempt)
    log.info("savepoint removed", job=request.job, savepoint=request.name)


class Taking(ABC):
    """One attempt at a savepoint."""

    def __init__(self, runtime: Runtime, request: NewSavepoint) -> None:
        self._runtime = runtime
        self._root = runtime.settings.checkpoint_root
        self._files = runtime.files
        self._target = request
        self._folder = savepoint_folder(self._root, request.job, request.name)
        self._attempt = _new_attempt(self._folder, request.number)
        self._home = self._attempt if self._files.keeps_place(self._folder) else self._folder
        self._copied: set[str] = set()
        self._bytes = 0

    @abstractmethod
    def save(self, index: int) -> SavedTask:
        """Copies the checkpoint of a task. Raises BrokenCheckpoint when there is nothing to copy."""

    def run(self) -> SavepointReport:
        """The savepoint that is there, or a new one."""
        found = _read_not_newer(self._folder, self._target.number, self._files)
        if found is not None and found.number == self._target.number:
            return found.report
        try:
            tasks = tuple(self.save(index) for index in range(len(self._target.layout.ranges)))
            report = self._publish(SavepointReport(tasks=tasks, bytes=self._bytes))
        finally:
            if self._files.resolve(self._folder) != self._attempt:
                self._files.delete(self._attempt)
        log.info("savepoint taken", job=self._target.job, savepoint=self._target.name, bytes=report.bytes)
        return report

    def _publish(self, report: SavepointReport) -> SavepointReport:
        """Gives the attempt its name. Returns the report of the savepoint of this number, which may be of another host:
        this one may have hung since it looked."""
        request = self._target
        if missing := self._copied.difference(self._files.names(self._attempt)):
            raise Fenced(f"FENCED: {self._attempt} lacks {sorted(missing)}: the savepoint is being removed")
        manifest = SavepointManifest(job=request.job, number=request.number, layout=request.layout, report=report)
        self._files.write(f"{self._attempt}/{MANIFEST}", manifest.model_dump_json().encode())
        self._runtime.before_claim()
        found = _read_not_newer(self._folder, request.number, self._files)
        if found is not None and found.number == request.number:
            return found.report
        aside = _new_attempt(self._folder, request.number)
        # What has the name is of a smaller number: it was to be removed before.
        _put_aside(self._folder, found, aside, self._files)
        if not self._files.publish(self._attempt, self._folder):
            raise Fenced(f"FENCED: another host took the savepoint {self._folder} at the same time")
        self._files.delete(aside)
        return report

    def copy(self, checkpoint: str, index: int) -> int | None:
        """Copies a checkpoint and reads the copy as a restore would. Returns the last finished batch."""
        copied = task_folder(self._attempt, index)
        for left in reversed(range(_ATTEMPTS)):
            self._files.delete(copied)
            try:
                content = content_of(checkpoint, task_folder(self._home, index), self._files)
                self._fill(checkpoint, copied, content)
                break
            except FileNotFoundError:
                if not left:
                    raise
        self._require_same(copied, index, content)
        if content.files:
            self._copied.add(copied.rpartition("/")[2])
        self._bytes += sum(content.files.values())
        return content.batch

    def _fill(self, checkpoint: str, copied: str, content: Content) -> None:
        for name in content.files:
            self._files.copy(f"{checkpoint}/{name}", f"{copied}/{name}")
        for name, text in content.moved.items():
            self._files.write(f"{copied}/{name}", text)

    def _require_same(self, copied: str, index: int, content: Content) -> None:
        found = content_of(copied, task_folder(self._home, index), self._files)
        if found != content:
            raise BrokenCheckpoint(f"{copied} differs from the checkpoint that was copied")


class _OfJob(Taking):
    """Copies the checkpoints of a job."""

    def __init__(self, runtime: Runtime, request: SavepointRequest) -> None:
        super().__init__(runtime, request)
        self._request = request

    def save(self, index: int) -> SavedTask:
        """The task's checkpoint, or what an earlier savepoint has of it."""
        request = self._request
        checkpoint = self._runtime.checkpoint(request.job, request.layout.generation, index)
        try:
            return SavedTask(index=index, batch=self.copy(checkpoint, index))
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
                batch = self.copy(task_folder(self._files.resolve(earlier), index), index)
            except _Unreadable as error:
                log.warning("an earlier savepoint is of no use", savepoint=name, exc_info=error)
                continue
            origin = manifest.report.tasks[index].taken_from or name
            return SavedTask(index=index, batch=batch, taken_from=origin, why=why)
        raise BrokenCheckpoint(
            f"the checkpoint of {request.job}/{index} cannot be copied, and no earlier savepoint has the task: {why}"
        )


def _new_attempt(savepoint: str, number: int) -> str:
    parent, _, name = savepoint.rpartition("/")
    return f"{parent}/.{name}~{number}-{uuid.uuid4().hex}"


def _is_attempt_at(folder: str, request: SavepointRemoval) -> bool:
    """Whether a folder's name is that of an attempt at the savepoint, or at an older one of its name.

    The names of earlier versions have no number.
    """
    start, _, rest = folder.partition("~")
    number, dash, _ = rest.partition("-")
    return start == f".{request.name}" and (not dash or int(number) <= request.number)


def _put_aside(folder: str, found: SavepointManifest | None, aside: str, files: Files) -> None:
    """Takes its name from a savepoint in one step, if there is one. `found`: the manifest that allowed it.

    Raises Fenced when another savepoint got the name meanwhile, which keeps it.
    """
    if files.names(folder) and files.publish(folder, aside) and read_manifest(aside, files) != found:
        files.publish(aside, folder)
        raise Fenced(f"FENCED: another host took the savepoint {folder} at the same time")


def _reason(error: Exception) -> str:
    return getattr(error, "detail", None) or str(error).splitlines()[0]


def _read_not_newer(folder: str, number: int, files: Files) -> SavepointManifest | None:
    found = read_manifest(folder, files)
    if found is not None and found.number > number:
        raise Fenced(f"FENCED: {folder} has the savepoint number {found.number}, newer than {number}")
    return found
