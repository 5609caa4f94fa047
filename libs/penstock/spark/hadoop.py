"""Files of checkpoints and savepoints on Hadoop file systems other than `file:`, through the JVM of the host.

HDFS, ADLS              folders are renamed in one step; a rename replaces nothing
S3, Google Storage      no folder can be renamed; a new object is made by one of several writers
others                  nothing of that is known, so checkpoints need `unlocked_checkpoints`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from py4j.protocol import Py4JJavaError

from penstock.control.errors import Conflict, Unavailable
from penstock.spark.fence import FENCE, Mark, claimed, require_newest
from penstock.spark.stores import HAS_NO_FOLDERS, PATH_READABLE, STORE_LOGIN, scheme_of, store_problem

if TYPE_CHECKING:
    # A supervisor, which has no Spark, also reads local checkpoints.
    from pyspark.sql import SparkSession

_MANAGER_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
_NOT_FOUND = "java.io.FileNotFoundException"
_DENIED = ("org.apache.hadoop.security.AccessControlException", "java.nio.file.AccessDeniedException")
_NO_FOLDER = "org.apache.hadoop.fs.ParentNotDirectoryException"
_LINK = "_link"
"""In a folder of a store without folders: its only file, which names the folder that was published under this name."""


class HadoopFiles:
    """As `LocalFiles`, on a Hadoop file system. There are no hard links, so copies go through the JVM.

    Raises Unavailable with what to do when the store does not let itself be used at all.
    """

    def __init__(self, session: SparkSession, root: str | None = None) -> None:
        self._jvm: Any = session._jvm
        self._root = root
        self._settings = session._jsparkSession.sessionState().newHadoopConf()
        # Without a fence: the fence itself is what is written.
        self._settings.unset(_MANAGER_SETTING)

    def names(self, folder: str) -> list[str]:
        """As `LocalFiles.names`."""
        files, path = self._at(folder)
        try:
            with _translated(folder):
                return [status.getPath().getName() for status in files.listStatus(path)]
        except FileNotFoundError:
            return []

    def read(self, path: str) -> bytes:
        """The content of a file."""
        files, file = self._at(path)
        with _translated(path):
            return bytes(self._new_files.read(files, file))

    def size(self, path: str) -> int:
        """The bytes of a file."""
        files, file = self._at(path)
        with _translated(path):
            return int(files.getFileStatus(file).getLen())

    def write(self, path: str, content: bytes) -> None:
        """Creates a new file and its folder. Where one of several writers wins, a file with the same content is taken
        for this writer's own."""
        files, file = self._at(path)
        with _translated(path):
            if not self._create(files, file, content):
                raise FileExistsError(path)

    def _create(self, files: Any, file: Any, content: bytes) -> bool:
        if self._new_files.can(files):
            return bool(self._new_files.create(files, file, content))
        if files.exists(file):
            return False
        stream = files.create(file, False)
        try:
            stream.write(content)
        finally:
            stream.close()
        return True

    def copy(self, source: str, target: str) -> None:
        """As `LocalFiles.copy`."""
        (files, old), (_, new) = self._at(source), self._at(target)
        with _translated(source):
            files.getFileStatus(old)
            files.mkdirs(new.getParent())
            self._jvm.org.apache.hadoop.fs.FileUtil.copy(files, old, files, new, False, False, self._settings)

    def publish(self, folder: str, target: str) -> bool:
        """As `LocalFiles.publish`; atomic if the file system's renames are. A store without folders keeps the files
        where they are, and a link has the name: `resolve` follows it."""
        files, path = self._at(target)
        with _translated(target):
            if not self._has_folders(target):
                return self._link(folder, target)
            return not files.exists(path) and bool(files.rename(self._path(folder), path))

    def resolve(self, folder: str) -> str:
        """The folder that has the files of a published one: the same, but for a link in a store without folders."""
        if self._has_folders(folder):
            return folder
        try:
            return self.read(f"{folder}/{_LINK}").decode()
        except FileNotFoundError:
            return folder

    def keeps_place(self, folder: str) -> bool:
        """Whether the files of a folder stay where they are when it is published."""
        return not self._has_folders(folder)

    def _link(self, folder: str, target: str) -> bool:
        try:
            self.write(f"{target}/{_LINK}", self.resolve(folder).encode())
        except FileExistsError:
            return False
        # Of a link only: files that are published stay.
        self._delete(f"{folder}/{_LINK}")
        return True

    def _has_folders(self, path: str) -> bool:
        return scheme_of(path) not in HAS_NO_FOLDERS

    def delete(self, path: str) -> None:
        """As `LocalFiles.delete`. With a link goes what it leads to."""
        files, file = self._at(path)
        self._require_below(files, file, path)
        linked = self.resolve(path)
        if linked != path:
            self._require_below(files, self._path(linked), linked)
            self._delete(linked)
        self._delete(path)

    def _require_below(self, files: Any, file: Any, path: str) -> None:
        if self._root is not None:
            # Hadoop resolves `..` when it reads a path.
            root = str(files.makeQualified(self._path(self._root)).toString()).rstrip("/")
            if not str(files.makeQualified(file).toString()).startswith(f"{root}/"):
                raise outside(path, self._root)

    def _delete(self, path: str) -> None:
        files, file = self._at(path)
        with _translated(path):
            files.delete(file, True)

    def why_not_writable(self, path: str) -> str | None:
        """As `LocalFiles.why_not_writable`, where the file system tells rights. Raises as `why_not_readable`, but for
        what is the path's fault."""
        files, found = self._at(path)
        try:
            while not _exists(files, found) and found.getParent() is not None:
                found = found.getParent()
            if not files.getFileStatus(found).isDirectory():
                return f"{found} is not a folder"
            files.access(found, self._jvm.org.apache.hadoop.fs.permission.FsAction.WRITE)
        except Py4JJavaError as error:
            problem = store_problem(path, error)
            if problem is not None:
                return self._refusal(path, problem)
            if error.java_exception.getClass().getName() not in _DENIED:
                raise
            return denied(found)
        return None

    def why_not_readable(self, path: str) -> str | None:
        """As `LocalFiles.why_not_readable`; of a folder its first file is opened. Raises Unavailable as the class says,
        with a `rule` where the store has said no."""
        files, found = self._at(path)
        try:
            with _translated(path):
                listed = files.listStatus(found)
                first = next((status for status in listed if status.isFile() and status.getLen() > 0), None)
                if first is not None:
                    stream = files.open(first.getPath())
                    stream.read()
                    stream.close()
        except FileNotFoundError:
            return None
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() not in _DENIED:
                raise
            return unreadable(found)
        return None

    def _refusal(self, path: str, problem: Unavailable) -> str:
        """Why a store has refused a path. Raises when it does not know the login, which S3 tells only who lists; or
        when it does not answer."""
        try:
            if problem.extra.get("rule") == PATH_READABLE:
                self.why_not_readable(path)
        except Unavailable as told:
            problem = told
        if problem.extra.get("rule", STORE_LOGIN) == STORE_LOGIN:
            raise problem
        return problem.detail

    def has_fence(self, checkpoint: str) -> bool:
        """Whether two owners of a checkpoint are kept apart, by the kind of the file system."""
        files, _ = self._at(checkpoint)
        return bool(self._new_files.can(files))

    def fence(self, checkpoint: str) -> str | None:
        """As `LocalFiles.fence`."""
        files, path = self._at(f"{checkpoint}/{FENCE}")
        with _translated(checkpoint):
            newest = self._jvm.io.penstock.checkpoint.FenceLog(files, path).newestClaim()
        if newest is not None:
            return str(newest)
        try:
            return self.read(f"{checkpoint}/{FENCE}").decode()
        except FileNotFoundError:
            return None

    def claim(self, checkpoint: str, epoch: int | None, holder: str, mark: Mark | None = None) -> str:
        """As `LocalFiles.claim`. On file systems without a fence looking and writing are two steps: of two claims at
        once both may succeed, and the last one written wins."""
        files, path = self._at(f"{checkpoint}/{FENCE}")
        if not self.has_fence(checkpoint):
            token, content = claimed(self.fence(checkpoint), checkpoint, epoch, holder, mark)
            _write_whole(_file_manager(self._jvm, path.getParent(), self._settings), path, content.encode())
            return str(token)
        log = self._jvm.io.penstock.checkpoint.FenceLog(files, path)
        with _translated(checkpoint):
            self._new_files.require(files, path.getParent())
            while True:
                newest = log.newestClaim()
                # Without a claim in the log there may be the file of an earlier release.
                token, content = claimed(newest or self.fence(checkpoint), checkpoint, epoch, holder, mark)
                if log.claim(newest, content):
                    return str(token)

    def remove_checkpoint(self, checkpoint: str) -> None:
        """As `LocalFiles.remove_checkpoint`. The log of claims stays: without it a late owner would find its next slot
        free."""
        if not self.has_fence(checkpoint):
            self.delete(checkpoint)
            return
        for name in self.names(checkpoint):
            if not name.startswith(FENCE):
                self.delete(f"{checkpoint}/{name}")

    def clear(self, checkpoint: str, token: str, beside: Callable[[], None] = lambda: None) -> None:
        """As `LocalFiles.clear`, but the look and the deletion are two steps."""
        clear(self, checkpoint, token)
        beside()

    @property
    def _new_files(self) -> Any:
        return self._jvm.io.penstock.checkpoint.NewFiles

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _at(self, path: str) -> tuple[Any, Any]:
        """The file system of a path, and the path as Hadoop has it."""
        file = self._path(path)
        with _translated(path):
            return file.getFileSystem(self._settings), file


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


class _Clearable(Protocol):
    def fence(self, checkpoint: str) -> str | None: ...
    def names(self, folder: str) -> list[str]: ...
    def delete(self, path: str) -> None: ...


def clear(files: _Clearable, checkpoint: str, token: str) -> None:
    """Deletes all of a checkpoint but its fence. Raises Fenced when the token is not the newest any more."""
    require_newest(files.fence(checkpoint) or "none", token, checkpoint)
    for name in files.names(checkpoint):
        if not name.startswith(FENCE):
            files.delete(f"{checkpoint}/{name}")


def denied(folder: Any) -> str:
    """Why nothing can be written to a folder."""
    return f"the host's account may not write to {folder}"


def unreadable(file: Any) -> str:
    """Why a file or a folder cannot be read."""
    return f"the host's account may not read {file}"


def outside(path: str, root: str) -> Conflict:
    """The error of a deletion that is not below a root."""
    return Conflict(f"{path} is not below {root}, so it is not deleted", field="path", rule="below_root")


def _exists(files: Any, path: Any) -> bool:
    """HDFS raises for what would be below a file."""
    try:
        return bool(files.exists(path))
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() != _NO_FOLDER:
            raise
        return False


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


@contextmanager
def _translated(path: str) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() == _NOT_FOUND and store_problem(path, error) is None:
            raise FileNotFoundError(path) from error
        problem = store_problem(path, error)
        if problem is None:
            raise
        raise problem from error
