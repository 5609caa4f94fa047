"""Where the stopped tasks of a generation are: the last finished batch, offsets and watermark of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from penstock.config.keygroups import KeyGroupRange
from penstock.config.stream_names import is_stream_log
from penstock.config.topics import full_topic, topic_and_cluster
from penstock.control.errors import BrokenCheckpoint
from penstock.spark.checkpoint import PlannedBatch, last_commit, planned_batch, source_folders, watermark_ms
from penstock.spark.files import Files
from penstock.spark.inputs.identity import notes_in, require_noted_topics
from penstock.spark.redistribute.bus import InputEnds
from penstock.spark.redistribute.level import lagging
from penstock.spark.redistribute.offsets import SourceOffsets, source_of, topics_in
from penstock.spark.redistribute.reads import Read, as_read, inputs_of, reads_of
from penstock.spark.redistribute.stores import OldState
from penstock.spark.savepoint.take import read_manifest, savepoint_folder, task_folder
from penstock.spark.sections import beginning, noted_begin
from penstock.spark.task import RunningTask, Runtime
from penstock.spark.topics import described_on
from penstock.tasks.redistribution import Layout, SavepointName
from penstock.tasks.spec import TaskSpec, key_group_count


@dataclass(frozen=True)
class Trace:
    """What a task's checkpoint itself says. `batch_id` and `batch` are those of the last finished batch, if any.

    `sources` has an entry a source of the query, None where the checkpoint does not say what is read next; none at
    all for a task that was never started. `watermark_ms` is 0 without a watermark.
    """

    batch_id: int | None
    batch: PlannedBatch | None
    sources: tuple[SourceOffsets | None, ...]
    watermark_ms: int


class SavedTask(NamedTuple):
    """A task in a savepoint."""

    spec: TaskSpec
    checkpoint: str


OldTask = RunningTask | SavedTask


@dataclass(frozen=True)
class Position(Trace):
    """The trace of `task` with what was missing: `sources` say of every source, and of every topic that some task of
    the generation knows, what is read next. `reads`: what the sources of the query are."""

    sources: tuple[SourceOffsets, ...]
    task: OldTask
    reads: tuple[Read, ...] = ()

    @property
    def metadata(self) -> Mapping[str, Any]:
        """That of the last finished batch, which there must be."""
        assert self.batch is not None
        return self.batch.metadata

    @property
    def state(self) -> OldState:
        """The task's state after its last finished batch, which there must be."""
        assert self.batch_id is not None
        return OldState(self.task.checkpoint, self.task.spec.key_groups, self.batch_id, self.metadata)


def trace(checkpoint: str, files: Files) -> Trace:
    """The trace of a task that has no batch pending. Raises BrokenCheckpoint when its logs contradict themselves."""
    batch_id = last_commit(checkpoint, files)
    if batch_id is None:
        return Trace(None, None, _noted_at_start(checkpoint, files), 0)
    batch = planned_batch(checkpoint, batch_id, files)
    sources = tuple(
        noted_begin(checkpoint, number, files) if line is None else source_of(line)
        for number, line in enumerate(batch.sources)
    )
    return Trace(batch_id, batch, sources, watermark_ms(checkpoint, batch_id, files))


class Generation:
    """Tasks of a job that are stopped or take no rows, of which none may have a batch pending, and how far they have
    read."""

    def __init__(self, runtime: Runtime, layout: Layout, tasks: Sequence[OldTask]) -> None:
        self._runtime = runtime
        self._old = tasks
        self._inputs = inputs_of(layout.config.inputs.values())
        self._has_streams = bool(layout.config.streams)
        # Those with one key group say themselves where they are, in their own words.
        self._has_own_words = self._has_streams and key_group_count(layout.config) == 1
        self._ends = InputEnds(runtime.settings.cluster)

    def require_same_topics(self) -> None:
        """Raises BrokenTask when an input topic was made again since its offsets were noted, Unavailable when Kafka
        does not answer."""
        checkpoints = [task.checkpoint for task in self._old]
        clusters = self._runtime.settings.cluster
        require_noted_topics(self._runtime.files, checkpoints, lambda: described_on(clusters, self._topics()))

    def _topics(self) -> set[str]:
        """Those of the inputs, and of a pattern those that the tasks have offsets of."""
        named = {name for name, source in self._inputs.items() if source.topic is not None}
        if len(named) == len(self._inputs):
            return named
        return named.union(*(topics_in(filter(None, self.trace(task).sources)) for task in self._old))

    def notes(self) -> frozenset[str]:
        """The notes of topics that the tasks have, for those that go on from them."""
        return frozenset(name for task in self._old for name in notes_in(self._runtime.files, task.checkpoint))

    def positions(self) -> list[Position]:
        """Where the tasks are. Raises BrokenCheckpoint when their logs contradict themselves, each other or the job,
        Unavailable when Kafka does not answer."""
        traces = [self.trace(task) for task in self._old]
        reads = self.reads(traces)
        return [self._position(task, found, reads) for task, found in zip(self._old, traces, strict=True)]

    def reads(self, traces: Sequence[Trace]) -> tuple[Read, ...]:
        """What the sources of the query read. Raises BrokenCheckpoint when the tasks contradict each other or the
        job."""
        begun = any(found.batch_id is not None for found in traces)
        return reads_of([found.sources for found in traces], self._inputs, begun=begun)

    def trace(self, task: OldTask) -> Trace:
        """What a task's checkpoint says of what the job reads. An imported one names topics without their clusters."""
        found = trace(task.checkpoint, self._runtime.files)
        return replace(found, sources=tuple(as_read(source, self._inputs) for source in found.sources))

    def has_state(self) -> bool:
        """Whether the query keeps state: some task has."""
        return any(self._runtime.files.names(f"{task.checkpoint}/state") for task in self._old)

    def lagging(self, positions: Sequence[Position], at_end: Callable[[int], bool]) -> tuple[int, ...]:
        """As `level.lagging`. A query without state drops no rows, so its tasks are level."""
        if not self.has_state():
            return ()
        return lagging([position.watermark_ms for position in positions], at_end)

    def _position(self, task: OldTask, found: Trace, reads: Sequence[Read]) -> Position:
        """Sources that the trace says nothing of begin as configured, and topics that it does not have at the
        beginning: other tasks have taken them in."""
        if self._has_own_words:
            known = tuple(filter(None, found.sources))
            return Position(found.batch_id, found.batch, known, found.watermark_ms, task)
        noted = (found.sources + (None,) * len(reads))[: len(reads)]
        sources = tuple(
            self._whole(source, read, task.spec.key_groups) for source, read in zip(noted, reads, strict=True)
        )
        return Position(found.batch_id, found.batch, sources, found.watermark_ms, task, tuple(reads))

    def _whole(self, source: SourceOffsets | None, read: Read, part: KeyGroupRange) -> SourceOffsets:
        assert read.name is not None
        if is_stream_log(read.name):
            return beginning(read.name, part) if source is None else source
        if source is None:
            begins = self._inputs[read.name]
            return SourceOffsets({topic: self._ends.starts(begins, topic, part) for topic in read.topics})
        fresh = read.topics - source.topics.keys()
        return SourceOffsets(
            {**source.topics, **{topic: self._ends.beginnings(topic, part.members()) for topic in fresh}}
        )


class SavedGeneration(Generation):
    """The tasks of a savepoint, which is only read.

    Raises BrokenCheckpoint when it is missing, of another generation, or another one of the same name.
    """

    def __init__(self, runtime: Runtime, layout: Layout, name: SavepointName) -> None:
        folder = savepoint_folder(runtime.settings.checkpoint_root, name.job, name.name)
        found = runtime.files.resolve(folder)
        tasks = [SavedTask(spec, task_folder(found, spec.index)) for spec in task_specs(name.job, layout)]
        super().__init__(runtime, layout, tasks)
        self._folder, self._layout, self._name = folder, layout, name
        self.require_same()

    def require_same(self) -> None:
        """Raises BrokenCheckpoint unless the savepoint is there and is the one that was asked for.

        Without this check a missing savepoint would look like a job that has read nothing.
        """
        folder, layout, number = self._folder, self._layout, self._name.number
        manifest = read_manifest(folder, self._runtime.files)
        if manifest is None:
            raise BrokenCheckpoint(f"there is no savepoint {folder}")
        if number is not None and manifest.number != number:
            raise BrokenCheckpoint(
                f"{folder} has the savepoint number {manifest.number}, not {number}: "
                "the one that was asked for is gone, and its name was used again"
            )
        found = manifest.layout
        if (found.generation, found.ranges) != (layout.generation, layout.ranges):
            raise BrokenCheckpoint(f"the savepoint {folder} has generation {found.generation}, not {layout.generation}")


def task_specs(job: str, layout: Layout) -> list[TaskSpec]:
    """The specs of a generation's tasks, for work on their checkpoints: of no revision."""
    return [
        TaskSpec(
            job=job,
            index=index,
            revision=0,
            generation=layout.generation,
            restarts=0,
            key_groups=part,
            config=layout.config,
        )
        for index, part in enumerate(layout.ranges)
    ]


def _noted_at_start(checkpoint: str, files: Files) -> tuple[SourceOffsets | None, ...]:
    folders = dict(source_folders(checkpoint, files))
    count = max(folders, default=-1) + 1
    return tuple(_noted(checkpoint, folders[number], files) if number in folders else None for number in range(count))


def _noted(checkpoint: str, folder: str, files: Files) -> SourceOffsets | None:
    try:
        text = files.read(f"{checkpoint}/sources/{folder}/0").decode()
    except FileNotFoundError:
        return None
    source = source_of(text.rpartition("\n")[2])
    _, cluster = topic_and_cluster(folder)
    return replace(source, topics={full_topic(topic, cluster): offsets for topic, offsets in source.topics.items()})
