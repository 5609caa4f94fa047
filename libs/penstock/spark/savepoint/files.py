"""Copies within one file system. Locally they are hard links, since a published file is never written again."""

from __future__ import annotations

import os
import shutil
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from penstock.spark.checkpoint import CheckpointFiles, LocalCheckpointFiles, is_local, local_path
from penstock.spark.hadoop import HadoopCheckpointFiles
from penstock.spark.task import Runtime

_NOT_FOUND = "java.io.FileNotFoundException"


class SavepointFiles(CheckpointFiles, Protocol):
    """The file system of savepoints and checkpoints. Paths are Hadoop paths."""

    def copy(self, source: str, target: str) -> None:
        """Creates `target` and its folder. Raises FileNotFoundError when `source` is missing."""
        ...

    def size(self, path: str) -> int:
        """The bytes of a file; raises FileNotFoundError when there is none."""
        ...

    def write(self, path: str, content: bytes) -> None:
        """Creates a new file and its folder."""
        ...

    def publish(self, folder: str, target: str) -> bool:
        """Renames a folder. Returns False when `target` exists already."""
        ...

    def delete(self, folder: str) -> None:
        """Deletes a folder and its content if it exists."""
        ...


class LocalSavepointFiles(LocalCheckpointFiles):
    """Folders of this machine, or mounted on it."""

    def copy(self, source: str, target: str) -> None:
        """Creates a hard link, or a copy if the file system has no hard links."""
        old, new = local_path(source), local_path(target)
        new.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(old, new)
        except (FileNotFoundError, FileExistsError):
            raise
        except OSError:
            shutil.copyfile(old, new)

    def size(self, path: str) -> int:
        """The bytes of a file; raises FileNotFoundError when there is none."""
        return local_path(path).stat().st_size

    def write(self, path: str, content: bytes) -> None:
        """Creates a new file and its folder. The content is on disk when this returns."""
        file = local_path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())

    def publish(self, folder: str, target: str) -> bool:
        """Renames a folder atomically. Returns False when `target` exists already."""
        try:
            local_path(folder).rename(local_path(target))
        except OSError:
            if local_path(target).exists():
                return False
            raise
        return True

    def delete(self, folder: str) -> None:
        """Deletes a folder and its content if it exists."""
        path = local_path(folder)
        if path.exists():
            shutil.rmtree(path)


class HadoopSavepointFiles(HadoopCheckpointFiles):
    """A Hadoop file system, used through the host's JVM. It has no hard links."""

    def __init__(self, session: SparkSession) -> None:
        super().__init__(session)
        self._jvm: Any = session._jvm
        self._settings = session._jsparkSession.sessionState().newHadoopConf()

    def copy(self, source: str, target: str) -> None:
        """Copies the bytes through this JVM."""
        files, old, new = self._system(source), self._path(source), self._path(target)
        if not files.exists(old):
            raise FileNotFoundError(source)
        files.mkdirs(new.getParent())
        self._jvm.org.apache.hadoop.fs.FileUtil.copy(files, old, files, new, False, False, self._settings)

    def size(self, path: str) -> int:
        """The bytes of a file; raises FileNotFoundError when there is none."""
        try:
            return int(self._system(path).getFileStatus(self._path(path)).getLen())
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() == _NOT_FOUND:
                raise FileNotFoundError(path) from error
            raise

    def write(self, path: str, content: bytes) -> None:
        """Creates a new file and its folder."""
        stream = self._system(path).create(self._path(path), False)
        try:
            stream.write(content)
        finally:
            stream.close()

    def publish(self, folder: str, target: str) -> bool:
        """Renames a folder, atomically if the file system does so. Returns False when `target` exists already."""
        files, path = self._system(target), self._path(target)
        return not files.exists(path) and bool(files.rename(self._path(folder), path))

    def delete(self, folder: str) -> None:
        """Deletes a folder and its content if it exists."""
        self._system(folder).delete(self._path(folder), True)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _system(self, path: str) -> Any:
        return self._path(path).getFileSystem(self._settings)


def savepoint_files(runtime: Runtime) -> SavepointFiles:
    """The files of the runtime's checkpoints."""
    local = is_local(runtime.settings.checkpoint_root)
    return LocalSavepointFiles() if local else HadoopSavepointFiles(runtime.host.spark)
