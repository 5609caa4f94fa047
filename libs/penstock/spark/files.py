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
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError

from penstock.control.errors import Conflict
from penstock.spark.fence import FENCE, Mark, claimed, require_newest

if TYPE_CHECKING:
    # A supervisor, which has no Spark, also reads local checkpoints.
    from pyspark.sql import SparkSession

_MANAGER_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
_NOT_FOUND = "java.io.FileNotFoundException"
_THERE_ALREADY = "org.apache.hadoop.fs.FileAlreadyExistsException"
_DENIED = "org.apache.hadoop.security.AccessControlException"
_NO_FOLDER = "org.apache.hadoop.fs.ParentNotDirectoryException"


def _denied(folder: Any) -> str:
    return f"the host's account may not write to {folder}"


def _exists(files: Any, path: Any) -> bool:
    """HDFS raises for what would be below a file."""
    try:
        return bool(files.exists(path))
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() != _NO_FOLDER:
            raise
        return False


def is_local(path: str) -> bool:
    """Whether a Hadoop path is of the local file system: `file:` or no scheme."""
    return urlsplit(path).scheme in ("", "file")


def local_path(path: str) -> Path:
    """The local file of a `file:` path or a plain one. Raises ValueError for other file systems."""
    if not is_local(path):
        raise ValueError(f"not a local path: {path}")
    parts = urlsplit(path)
    return Path(unquote(parts.path)) if parts.scheme else Path(path)


def _outside(path: str, root: str) -> Conflict:
    return Conflict(f"{path} is not below {root}, so it is not deleted", field="path", rule="below_root")


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
                raise _outside(path, self._root)
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
                return None if os.access(each.parent, os.W_OK) else _denied(each.parent)
            if not each.is_dir():
                return f"{each} is not a folder"
            if not os.access(each, os.X_OK):
                return _denied(each)
        return None if os.access(folder, os.W_OK) else _denied(folder)

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
            current = file.read_text() if file.exists() else None
            token, content = claimed(current, checkpoint, epoch, holder, mark)
            with fresh.open("wb") as stream:
                _write_durably(stream, content.encode())
            fresh.replace(file)
            _sync_folder(folder)
        return str(token)

    def clear(self, checkpoint: str, token: str, beside: Callable[[], None] = lambda: None) -> None:
        """Deletes all of a checkpoint but its fence, in one step with the look at it. `beside` deletes what belongs to
        it elsewhere, in the same step.

        Raises Fenced when the token is not the newest any more.
        """
        folder = local_path(checkpoint)
        with _locked(folder):
            _clear(self, checkpoint, token)
            beside()


class HadoopFiles:
    """As `LocalFiles`, on a Hadoop file system.

    There are no hard links, so copies go through the JVM. There are no locks: a claim or a deletion comes after a look,
    and two claims at once may both succeed; the last one written wins. One lease holder a time is then left to the
    lease alone.
    """

    def __init__(self, session: SparkSession, root: str | None = None) -> None:
        self._jvm: Any = session._jvm
        self._root = root
        self._settings = session._jsparkSession.sessionState().newHadoopConf()
        # Without a fence: the fence itself is what is written.
        self._settings.unset(_MANAGER_SETTING)

    def names(self, folder: str) -> list[str]:
        files, path = self._at(folder)
        return [status.getPath().getName() for status in files.listStatus(path)] if files.exists(path) else []

    def read(self, path: str) -> bytes:
        """The content of a file."""
        files, file = self._at(path)
        with _translated(path):
            stream = files.open(file)
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def size(self, path: str) -> int:
        files, file = self._at(path)
        with _translated(path):
            return int(files.getFileStatus(file).getLen())

    def write(self, path: str, content: bytes) -> None:
        """Creates a new file and its folder."""
        files, file = self._at(path)
        with _translated(path, _THERE_ALREADY, FileExistsError):
            stream = files.create(file, False)
        try:
            stream.write(content)
        finally:
            stream.close()

    def copy(self, source: str, target: str) -> None:
        (files, old), (_, new) = self._at(source), self._at(target)
        if not files.exists(old):
            raise FileNotFoundError(source)
        files.mkdirs(new.getParent())
        self._jvm.org.apache.hadoop.fs.FileUtil.copy(files, old, files, new, False, False, self._settings)

    def publish(self, folder: str, target: str) -> bool:
        """As `LocalFiles.publish`; atomic if the file system's renames are."""
        files, path = self._at(target)
        return not files.exists(path) and bool(files.rename(self._path(folder), path))

    def delete(self, path: str) -> None:
        """As `LocalFiles.delete`."""
        files, file = self._at(path)
        if self._root is not None:
            # Hadoop resolves `..` when it reads a path.
            root = str(files.makeQualified(self._path(self._root)).toString()).rstrip("/")
            if not str(files.makeQualified(file).toString()).startswith(f"{root}/"):
                raise _outside(path, self._root)
        files.delete(file, True)

    def why_not_writable(self, path: str) -> str | None:
        """As `LocalFiles.why_not_writable`, where the file system tells rights."""
        files, found = self._at(path)
        try:
            while not _exists(files, found) and found.getParent() is not None:
                found = found.getParent()
            if not files.getFileStatus(found).isDirectory():
                return f"{found} is not a folder"
            files.access(found, self._jvm.org.apache.hadoop.fs.permission.FsAction.WRITE)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() != _DENIED:
                raise
            return _denied(found)
        return None

    def claim(self, checkpoint: str, epoch: int | None, holder: str, mark: Mark | None = None) -> str:
        """As `LocalFiles.claim`, but looking and writing are two steps."""
        path = self._path(f"{checkpoint}/{FENCE}")
        current = self.read(f"{checkpoint}/{FENCE}").decode() if FENCE in self.names(checkpoint) else None
        token, content = claimed(current, checkpoint, epoch, holder, mark)
        _write_whole(_file_manager(self._jvm, path.getParent(), self._settings), path, content.encode())
        return str(token)

    def clear(self, checkpoint: str, token: str, beside: Callable[[], None] = lambda: None) -> None:
        _clear(self, checkpoint, token)
        beside()

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _at(self, path: str) -> tuple[Any, Any]:
        """The file system of a path, and the path as Hadoop has it."""
        file = self._path(path)
        return file.getFileSystem(self._settings), file


Files = LocalFiles | HadoopFiles
LOCAL_FILES = LocalFiles()


def files_of(path: str, session: SparkSession) -> Files:
    """The files of the file system that a path is on. They delete only what is below the path."""
    return LocalFiles(path) if is_local(path) else HadoopFiles(session, path)


class CheckpointWriter:
    """Writes below one folder through Spark's checkpoint file manager, on any file system, each file whole.

    With the settings of a task's session nothing is published once the checkpoint has a newer owner.
    `qualified_folder` is the folder with its file system, as Spark notes it.
    """

    def __init__(self, session: SparkSession, folder: str) -> None:
        jvm: Any = session._jvm
        self._paths = jvm.org.apache.hadoop.fs.Path
        self._folder = folder
        settings = session._jsparkSession.sessionState().newHadoopConf()
        root = self._paths(folder)
        self._manager = _file_manager(jvm, root, settings)
        self.qualified_folder = str(root.getFileSystem(settings).makeQualified(root).toString())

    def write(self, name: str, content: bytes) -> None:
        """Writes `<folder>/<name>`, in place of what is there."""
        _write_whole(self._manager, self._paths(f"{self._folder}/{name}"), content)


def _file_manager(jvm: Any, folder: Any, settings: Any) -> Any:
    """Spark's manager of the files in a folder (Hadoop's `Path`), of the class that `settings` name, if any."""
    return jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.create(folder, settings)


def _write_whole(manager: Any, file: Any, content: bytes) -> None:
    manager.mkdirs(file.getParent())
    stream = manager.createAtomic(file, True)
    try:
        stream.write(content)
        stream.close()
    except BaseException:
        stream.cancel()
        raise


def _clear(files: Files, checkpoint: str, token: str) -> None:
    require_newest(files.read(f"{checkpoint}/{FENCE}").decode(), token, checkpoint)
    for name in files.names(checkpoint):
        if not name.startswith(FENCE):
            files.delete(f"{checkpoint}/{name}")


@contextmanager
def _translated(path: str, java: str = _NOT_FOUND, raised: type[OSError] = FileNotFoundError) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() == java:
            raise raised(path) from error
        raise


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
