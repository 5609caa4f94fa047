"""The files of checkpoints and savepoints: local folders without a JVM, other file systems by Hadoop in the host's JVM.

Paths are Hadoop paths. A method that needs a file raises FileNotFoundError when there is none.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from penstock.spark.fence import FENCE, Mark, claimed
from penstock.spark.hadoop import HadoopFiles, clear, denied, outside, unreadable

if TYPE_CHECKING:
    # A supervisor, which has no Spark, also reads local checkpoints.
    from pyspark.sql import SparkSession


def is_local(path: str) -> bool:
    """Whether a Hadoop path is of the local file system: `file:` or no scheme."""
    return urlsplit(path).scheme in ("", "file")


def local_path(path: str) -> Path:
    """The local file of a `file:` path or a plain one. Raises ValueError for other file systems."""
    if not is_local(path):
        raise ValueError(f"not a local path: {path}")
    parts = urlsplit(path)
    return Path(unquote(parts.path)) if parts.scheme else Path(path)


class LocalFiles:
    """Folders of this machine, or mounted on it. With a `root` nothing is deleted that is not below it."""

    def __init__(self, root: str | None = None) -> None:
        self._root = root

    def names(self, folder: str) -> list[str]:
        """The names in a folder; empty when the folder does not exist."""
        path = local_path(folder)
        return [entry.name for entry in path.iterdir()] if path.is_dir() else []

    def read(self, path: str) -> bytes:
        """The content of a file."""
        return local_path(path).read_bytes()

    def size(self, path: str) -> int:
        """The bytes of a file."""
        return local_path(path).stat().st_size

    def write(self, path: str, content: bytes) -> None:
        """Creates a new file and its folder. The content is on disk when this returns."""
        file = local_path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as stream:
            _write_durably(stream, content)

    def copy(self, source: str, target: str) -> None:
        """Creates `target`, in its folder: a hard link where there are such, since no published file is changed."""
        old, new = local_path(source), local_path(target)
        new.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(old, new)
        except (FileNotFoundError, FileExistsError):
            raise
        except OSError:
            shutil.copyfile(old, new)

    def publish(self, folder: str, target: str) -> bool:
        """Renames a folder atomically. Returns False when `target` exists already."""
        try:
            local_path(folder).rename(local_path(target))
        except OSError:
            if local_path(target).exists():
                return False
            raise
        return True

    def delete(self, path: str) -> None:
        """Deletes a file, or a folder and its content, if it exists. Raises Conflict when it is not below the root,
        wherever links and `..` on the way lead."""
        file = local_path(path)
        if self._root is not None:
            real = file.parent.resolve() / file.name
            if file.name in ("", "..") or local_path(self._root).resolve() not in real.parents:
                raise outside(path, self._root)
        if file.is_dir():
            shutil.rmtree(file)
        else:
            file.unlink(missing_ok=True)

    def why_not_writable(self, path: str) -> str | None:
        """Why a file cannot be made below a folder, which need not be there; None when it can."""
        folder = local_path(path).absolute()
        # From above: what is below a folder that may not be entered cannot be seen.
        for each in (*reversed(folder.parents), folder):
            if not each.exists():
                return None if os.access(each.parent, os.W_OK) else denied(each.parent)
            if not each.is_dir():
                return f"{each} is not a folder"
            if not os.access(each, os.X_OK):
                return denied(each)
        return None if os.access(folder, os.W_OK) else denied(folder)

    def why_not_readable(self, path: str) -> str | None:
        """Why a file, or a folder and what is directly in it, cannot be read; None when it can, or is not there."""
        file = local_path(path).absolute()
        for each in reversed(file.parents):
            if not each.is_dir():
                return None
            if not _may_read(each, os.X_OK):
                return unreadable(each)
        if not file.exists():
            return None
        below = sorted(file.iterdir()) if file.is_dir() and _may_read(file) else []
        return next((unreadable(each) for each in (file, *below) if _is_read(each) and not _may_read(each)), None)

    def resolve(self, folder: str) -> str:
        """The folder that has the files of a published one: the same here."""
        return folder

    def keeps_place(self, folder: str) -> bool:
        """Whether the files of a folder stay where they are when it is published: they get the new name here."""
        return False

    def has_fence(self, checkpoint: str) -> bool:
        """Whether two owners of a checkpoint are kept apart: by file locks here."""
        return True

    def fence(self, checkpoint: str) -> str | None:
        """The newest claim of a checkpoint as `penstock.spark.fence` has it; None without any."""
        file = local_path(checkpoint) / FENCE
        return file.read_text() if file.exists() else None

    def claim(self, checkpoint: str, epoch: int | None, holder: str, mark: Mark | None = None) -> str:
        """Makes the caller the only owner of a checkpoint and returns its token, `"<epoch>.<attempt>"`.

        Without an epoch it is a further attempt of the present one, whichever that is: for work on checkpoints of tasks
        that are known to have stopped. Such a claim with a mark is refused once an owner followed a newer commit: a
        late redistribution takes nothing from tasks that were resumed.

        The FENCE file is on disk when this returns. Raises Fenced when a greater epoch has claimed the checkpoint or
        the mark is too old, BrokenCheckpoint when the FENCE file cannot be read.
        """
        folder = local_path(checkpoint)
        folder.mkdir(parents=True, exist_ok=True)
        file, fresh = folder / FENCE, folder / f".{FENCE}.new"
        with _locked(folder):
            token, content = claimed(self.fence(checkpoint), checkpoint, epoch, holder, mark)
            with fresh.open("wb") as stream:
                _write_durably(stream, content.encode())
            fresh.replace(file)
            _sync_folder(folder)
        return str(token)

    def remove_checkpoint(self, checkpoint: str) -> None:
        """Deletes a checkpoint, whose owners publish nothing from now on."""
        self.delete(checkpoint)

    def clear(self, checkpoint: str, token: str, beside: Callable[[], None] = lambda: None) -> None:
        """Deletes all of a checkpoint but its fence, in one step with the look at it. `beside` deletes what belongs to
        it elsewhere, in the same step.

        Raises Fenced when the token is not the newest any more.
        """
        folder = local_path(checkpoint)
        with _locked(folder):
            clear(self, checkpoint, token)
            beside()


Files = LocalFiles | HadoopFiles
LOCAL_FILES = LocalFiles()


def files_of(path: str, session: SparkSession) -> Files:
    """The files of the file system that a path is on. They delete only what is below the path."""
    return LocalFiles(path) if is_local(path) else HadoopFiles(session, path)


def _is_read(file: Path) -> bool:
    """Spark passes over other files; a Delta table has its log in such a folder."""
    return not file.name.startswith(("_", ".")) or file.name == "_delta_log"


def _may_read(file: Path, right: int = os.R_OK) -> bool:
    needed = right | os.X_OK if file.is_dir() else right
    return os.access(file, needed, effective_ids=True)


_threads = threading.Lock()


@contextmanager
def _locked(checkpoint: Path) -> Iterator[None]:
    """Excludes other processes by fcntl, and other threads of this one, which fcntl does not exclude."""
    with _threads, (checkpoint / f"{FENCE}.lock").open("ab") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        yield


def _write_durably(stream: IO[bytes], content: bytes) -> None:
    stream.write(content)
    stream.flush()
    os.fsync(stream.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
