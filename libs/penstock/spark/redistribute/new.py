"""The checkpoints of the new generation: created, filled with state, verified, and completed by a commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from penstock.config.model import FilesOutput
from penstock.spark.checkpoint import METADATA, PlannedBatch, commit_text, new_id, offsets_text
from penstock.spark.files import CheckpointWriter
from penstock.spark.redistribute.offsets import SourceOffsets, line_of
from penstock.spark.redistribute.positions import initial_offsets_path, initial_offsets_text
from penstock.spark.sinks.files import task_folder
from penstock.spark.task import Runtime
from penstock.tasks.spec import TaskSpec

# Spark's files sink compacts its log from batch 0 on, and this task never runs batch 0.
_EMPTY_SINK_LOG = b"v1"


@dataclass(frozen=True)
class NewTask:
    """A task of the new generation, with a session that may publish to its checkpoint."""

    spec: TaskSpec
    checkpoint: str
    token: str
    session: SparkSession
    writer: CheckpointWriter


class NewGeneration:
    """The checkpoints of the new tasks. This object owns them until the tasks start or another attempt claims them."""

    def __init__(self, runtime: Runtime, specs: Sequence[TaskSpec]) -> None:
        self._runtime = runtime
        self.tasks = [_new_task(runtime, spec) for spec in specs]

    def clear(self) -> None:
        """Removes the files of an earlier attempt. Raises Fenced when a newer attempt has claimed the checkpoints."""
        for task in self.tasks:
            self._runtime.files.clear(task.checkpoint, task.token)

    def write_file(self, name: str, content: bytes) -> None:
        """Writes the same file into each checkpoint."""
        for task in self.tasks:
            task.writer.write(name, content)

    def plan_batch_0(self, task: NewTask, metadata: dict[str, object], sources: Sequence[SourceOffsets]) -> None:
        """Writes batch 0, which represents all work of the old tasks. It takes effect when it is committed."""
        task.writer.write(METADATA, new_id())
        batch = PlannedBatch(metadata, tuple(line_of(source) for source in sources))
        task.writer.write("offsets/0", offsets_text(batch).encode())
        output = task.spec.config.output
        if isinstance(output, FilesOutput):
            folder = task_folder(output.path, task.spec.generation, task.spec.index)
            CheckpointWriter(task.session, folder).write("_spark_metadata/0", _EMPTY_SINK_LOG)

    def begin(self, task: NewTask, sources: Sequence[SourceOffsets]) -> None:
        """Writes the initial offsets of a job that has not finished a batch yet."""
        task.writer.write(METADATA, new_id())
        for number, source in enumerate(sources):
            task.writer.write(initial_offsets_path(number), initial_offsets_text(line_of(source)).encode())

    def commit_batch_0(self, watermark_ms: int) -> None:
        """The last step: it makes the checkpoints valid."""
        for task in self.tasks:
            task.writer.write("commits/0", commit_text(watermark_ms).encode())


def _new_task(runtime: Runtime, spec: TaskSpec) -> NewTask:
    checkpoint = runtime.checkpoint(spec.job, spec.generation, spec.index)
    token = runtime.claim(checkpoint, epoch=None)
    session = runtime.session(spec.config, checkpoint, token)
    return NewTask(spec, checkpoint, token, session, CheckpointWriter(session, checkpoint))
