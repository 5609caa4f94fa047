"""Checkpoints on other file systems than the local one, through Spark's own checkpoint file manager."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from penstock.spark.fence import FENCE, Mark, claimed, require_newest

_MANAGER_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
_NOT_FOUND = "java.io.FileNotFoundException"


class HadoopCheckpointFiles:
    """`CheckpointFiles` and `claim` for a Hadoop file system, by the host's JVM.

    There are no locks: a claim is written after looking, and two claims at once may both succeed; the last one
    written wins. One lease holder a time is then left to the lease alone.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none when there is no such folder."""
        manager, path = self._manager(folder)
        return [status.getPath().getName() for status in manager.list(path)] if manager.exists(path) else []

    def read(self, path: str) -> str:
        """The text of a file; raises FileNotFoundError when there is none."""
        return self.read_bytes(path).decode()

    def read_bytes(self, path: str) -> bytes:
        """The content of a file; raises FileNotFoundError when there is none."""
        manager, file = self._manager(path)
        try:
            stream = manager.open(file)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() == _NOT_FOUND:
                raise FileNotFoundError(path) from error
            raise
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def claim(self, checkpoint: str, epoch: int | None, holder: str, mark: Mark | None = None) -> str:
        """As `penstock.spark.fence.claim`, but looking and writing are two steps."""
        path = f"{checkpoint}/{FENCE}"
        manager, file = self._manager(path)
        current = self.read(path) if manager.exists(file) else None
        token, content = claimed(current, checkpoint, epoch, holder, mark)
        manager.mkdirs(file.getParent())
        stream = manager.createAtomic(file, True)
        stream.write(content.encode())
        stream.close()
        return str(token)

    def clear(self, checkpoint: str, token: str) -> None:
        """As `penstock.spark.fence.clear`, but looking and deleting are two steps."""
        require_newest(self.read(f"{checkpoint}/{FENCE}"), token, checkpoint)
        manager, _ = self._manager(f"{checkpoint}/{FENCE}")
        for status in manager.list(self._manager(checkpoint)[1]):
            if not status.getPath().getName().startswith(FENCE):
                manager.delete(status.getPath())

    def _manager(self, path: str) -> tuple[Any, Any]:
        """Spark's manager for the file system of `path`, without a fence: the fence itself is what is written."""
        jvm: Any = self._session._jvm
        settings = self._session._jsparkSession.sessionState().newHadoopConf()
        settings.unset(_MANAGER_SETTING)
        file = jvm.org.apache.hadoop.fs.Path(path)
        return file_manager(jvm, file.getParent(), settings), file


def file_manager(jvm: Any, folder: Any, settings: Any) -> Any:
    """Spark's manager of the files in a folder (Hadoop's `Path`), of the class that `settings` name, if any."""
    return jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.create(folder, settings)
