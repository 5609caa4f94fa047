"""Files of a checkpoint that is written, through Spark's checkpoint file manager and so behind the fence."""

from __future__ import annotations

import json
import uuid
from typing import Any

from pyspark.sql import SparkSession

from penstock.spark.hadoop import file_manager

METADATA = "metadata"


def new_id() -> bytes:
    """The content of a new checkpoint's metadata file: an id of its own."""
    return json.dumps({"id": str(uuid.uuid4())}).encode()


class CheckpointWriter:
    """Writes below one folder, on any Hadoop file system, each file whole.

    With the settings of a task's session nothing is published once the checkpoint has a newer owner.
    `qualified_folder` is the folder with its file system, as Spark notes it.
    """

    def __init__(self, session: SparkSession, folder: str) -> None:
        jvm: Any = session._jvm
        self._paths = jvm.org.apache.hadoop.fs.Path
        self._folder = folder
        settings = session._jsparkSession.sessionState().newHadoopConf()
        root = self._paths(folder)
        self._manager = file_manager(jvm, root, settings)
        self.qualified_folder = str(root.getFileSystem(settings).makeQualified(root).toString())

    def write(self, name: str, content: bytes) -> None:
        """Writes `<folder>/<name>`, in place of what is there."""
        file = self._paths(f"{self._folder}/{name}")
        self._manager.mkdirs(file.getParent())
        stream = self._manager.createAtomic(file, True)
        try:
            stream.write(content)
            stream.close()
        except BaseException:
            stream.cancel()
            raise
