"""The checkpoints of the new generation: created, filled with state, verified, and completed by a commit.

They begin with one batch, which represents all work of the old tasks: with the number that fits the version of the
state stores. It is 0 where the state was written at once, and greater where changes were brought after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from penstock.config.model import FilesOutput
from penstock.control.errors import Fenced
from penstock.spark.checkpoint import (
    METADATA,
    PlannedBatch,
    commit_text,
    generation_folder,
    new_id,
    offsets_text,
    source_folders,
)
from penstock.spark.fence import Mark, parse_fence
from penstock.spark.files import Files, files_of
from penstock.spark.hadoop import CheckpointWriter
from penstock.spark.paths import require_allowed_paths
from penstock.spark.redistribute.manifest import MANIFEST, CopyManifest, mark_of, parse_manifest
from penstock.spark.redistribute.offsets import SourceOffsets, initial_offsets, line_of
from penstock.spark.redistribute.pins import remove_pins
from penstock.spark.redistribute.stores import Operator
from penstock.spark.sinks.files import task_folder
from penstock.spark.sinks.folder_owner import LOG, QUERY
from penstock.spark.task import Runtime
from penstock.tasks.spec import TaskSpec

# Spark's files sink compacts its log from batch 0 on, and this task never runs its first batches.
_EMPTY_SINK_LOG = b"v1"
_COMPACT_INTERVAL = "spark.sql.streaming.fileSink.log.compactInterval"


@dataclass(frozen=True)
class NewTask:
    """A task of the new generation, with a session that may publish to its checkpoint."""

    spec: TaskSpec
    checkpoint: str
    token: str
    session: SparkSession
    writer: CheckpointWriter


class NewGeneration:
    """The checkpoints of the new tasks. This object owns them until the tasks start or another attempt claims them.
    `folder`: of the generation. `mark`: the stop that a redistribution follows; a copy comes before all stops.

    Raises Fenced when one of the tasks was started, or an attempt that follows a later commit has claimed a checkpoint:
    a copy that is late takes nothing from a redistribution.
    """

    def __init__(self, runtime: Runtime, specs: Sequence[TaskSpec], mark: Mark | None) -> None:
        self._runtime = runtime
        self.folder = generation_folder(runtime.settings.checkpoint_root, specs[0].job, specs[0].generation)
        self.tasks = [_new_task(runtime, spec, mark) for spec in specs]

    def clear(self) -> None:
        """Removes the files of an earlier attempt, also from the log of a files output: the attempt may have begun with
        a later batch. Raises Fenced when a newer attempt has claimed the checkpoints."""
        self.forget_copy()
        for task in self.tasks:
            self._runtime.files.clear(task.checkpoint, task.token, partial(_forget_output, task))

    def copied(self) -> CopyManifest | None:
        """What an earlier host task has copied of the state; None without a copy that is whole."""
        files = self._runtime.files
        return parse_manifest(files.read(f"{self.folder}/{MANIFEST}")) if MANIFEST in files.names(self.folder) else None

    def note_copy(self, manifest: CopyManifest) -> None:
        """Records for the redistribution that the copy is whole, and in each checkpoint whose it is."""
        for task in self.tasks:
            task.writer.write(mark_of(manifest.id), b"")
        CheckpointWriter(self.tasks[0].session, self.folder).write(MANIFEST, manifest.model_dump_json().encode())

    def forget_copy(self) -> None:
        """Deletes the manifest. The stores change from here on, so the copy cannot be used again."""
        self._runtime.files.delete(f"{self.folder}/{MANIFEST}")
        remove_pins(self._runtime.files, self.folder)

    def describe_operators(self, operators: Sequence[Operator], checkpoint: str) -> None:
        """Writes what the checkpoints must know of the operators before any of their state, as `checkpoint` has it."""
        for task in self.tasks:
            partitions = task.spec.config.threads_per_task
            for operator in operators:
                metadata = operator.metadata_for(task.writer.qualified_folder, partitions)
                task.writer.write(operator.metadata_path, metadata.encode())
        for path in [path for operator in operators for path in operator.schema_paths()]:
            content = self._runtime.files.read(f"{checkpoint}/{path}")
            for task in self.tasks:
                task.writer.write(path, content)

    def note_topics(self, notes: Iterable[str]) -> None:
        """Writes which topics the offsets count in (`inputs.identity`), before any offsets."""
        for task in self.tasks:
            for name in notes:
                task.writer.write(name, b"")

    def take_notes_of_sources(self, checkpoint: str) -> None:
        """Writes what the sources of streams have noted in the old checkpoint of the one task: the files that they have
        read, or when they began."""
        for _, own in source_folders(checkpoint, self._runtime.files):
            folder = f"sources/{own}"
            for name in self._runtime.files.names(f"{checkpoint}/{folder}"):
                if not name.startswith("."):
                    content = self._runtime.files.read(f"{checkpoint}/{folder}/{name}")
                    self.tasks[0].writer.write(f"{folder}/{name}", content)

    def plan_batch(
        self, task: NewTask, batch_id: int, metadata: dict[str, object], sources: Sequence[SourceOffsets]
    ) -> None:
        """Writes the first batch, which takes effect when it is committed. Spark also reads the batch before it."""
        task.writer.write(METADATA, new_id())
        batch = PlannedBatch(metadata, tuple(line_of(source) for source in sources))
        for number in range(max(0, batch_id - 1), batch_id + 1):
            task.writer.write(f"offsets/{number}", offsets_text(batch).encode())
        folder = _output_folder(task)
        if folder is not None:
            log = CheckpointWriter(task.session, folder)
            interval = int(task.session.conf.get(_COMPACT_INTERVAL) or 0)
            for number in range(batch_id + 1):
                log.write(f"{LOG}/{_sink_log_name(number, interval)}", _EMPTY_SINK_LOG)

    def begin(self, task: NewTask, sources: Sequence[SourceOffsets]) -> None:
        """Writes the initial offsets of a job that has not finished a batch yet."""
        task.writer.write(METADATA, new_id())
        for number, source in enumerate(source for source in sources if source.line is None):
            path, content = initial_offsets(number, source)
            task.writer.write(path, content.encode())

    def commit_batch(self, batch_id: int, watermark_ms: int) -> None:
        """The last step: it makes the checkpoints valid."""
        for task in self.tasks:
            task.writer.write(f"commits/{batch_id}", commit_text(watermark_ms).encode())


def _new_task(runtime: Runtime, spec: TaskSpec, mark: Mark | None) -> NewTask:
    require_allowed_paths(spec.config, runtime.settings.path_roots)
    checkpoint = runtime.checkpoint(spec.job, spec.generation, spec.index)
    if was_started(runtime.files, checkpoint):
        raise Fenced(f"FENCED: {checkpoint} has a task that was started: a late attempt writes nothing there")
    token = runtime.claim(checkpoint, epoch=None, mark=mark)
    session = runtime.session(spec.config, checkpoint, token)
    return NewTask(spec, checkpoint, token, session, CheckpointWriter(session, checkpoint))


def was_started(files: Files, checkpoint: str) -> bool:
    """Whether a task ever claimed the checkpoint: with its shard's epoch, which redistributions do not have."""
    fence = files.fence(checkpoint)
    return fence is not None and parse_fence(fence).epoch > 0


def _output_folder(task: NewTask) -> str | None:
    """The task's folder of a files output; None for other outputs."""
    output = task.spec.config.output
    if not isinstance(output, FilesOutput):
        return None
    return task_folder(output.path, task.spec.generation, task.spec.index)


def _forget_output(task: NewTask) -> None:
    """The log has nothing but the plan of an earlier attempt: no query was ever bound to the folder."""
    folder = _output_folder(task)
    files = None if folder is None else files_of(folder, task.session)
    if files is not None and QUERY not in files.names(f"{folder}"):
        files.delete(f"{folder}/{LOG}")


def _sink_log_name(batch_id: int, compact_interval: int) -> str:
    """The name under which Spark's files sink looks for a batch in its log."""
    return f"{batch_id}.compact" if (batch_id + 1) % compact_interval == 0 else str(batch_id)
