"""Imports the checkpoint of a Spark application as a savepoint, from which a job of Penstock starts.

Spark's checkpoint of one query is that of one task which has all key groups: its offsets log has a line of Kafka
offsets for each source, and its state is what the job's query would have. So the copy is a savepoint of one task, and a
restore moves it into as many tasks as the job has.

The application must have stopped: what it does after the copy, the job does again. A batch that it planned and did not
finish is left out, so its rows are read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from penstock.config.model import Input, JobConfig
from penstock.config.topics import full_topic, topic_and_cluster
from penstock.control.errors import BrokenCheckpoint, BrokenTask
from penstock.spark.checkpoint import METADATA, PlannedBatch, last_commit, last_offset, planned_batch
from penstock.spark.files import Files
from penstock.spark.paths import require_allowed
from penstock.spark.query import result_of
from penstock.spark.redistribute.offsets import SourceOffsets, parse_line
from penstock.spark.redistribute.stores import operators_of
from penstock.spark.savepoint.take import Taking
from penstock.spark.session import STATE_STORES, release_frames
from penstock.spark.sources import read_inputs, topic_options
from penstock.spark.task import Runtime
from penstock.tasks.savepoint import ImportRequest, SavedTask, SavepointReport
from penstock.tasks.spec import key_group_count, key_group_ranges

FIELD = "checkpoint"
_STORE = "spark.sql.streaming.stateStore.providerClass"
_ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
_ROWS = "unsaferow"


@dataclass(frozen=True)
class Application:
    """What a checkpoint says of its application. `batch`: the last finished one. `unfinished`: the one that was planned
    after it, if any. `sources`: in the order of the query. `stateful`: whether the query keeps state."""

    batch: int
    unfinished: int | None
    planned: PlannedBatch
    sources: tuple[SourceOffsets, ...]
    stateful: bool


def import_checkpoint(runtime: Runtime, request: ImportRequest) -> SavepointReport:
    """Copies the checkpoint; safe to repeat.

    Raises BrokenTask, which says what does not fit, when the checkpoint is not one of the job's query over the job's
    topics; Fenced when a newer savepoint has the name; what `Runtime.before_claim` raises; and Spark's errors when the
    job's own query cannot be built.
    """
    config, settings = request.layout.config, runtime.settings
    require_allowed(FIELD, request.checkpoint, settings.path_roots)
    found = read_application(request.checkpoint, runtime.files)
    problem = next(problems(found, config, _inputs_read(runtime, config)), None)
    if problem is not None:
        raise BrokenTask(f"{FIELD}: {problem}")
    return _Importing(runtime, request, found).run()


def read_application(checkpoint: str, files: Files) -> Application:
    """What is in a checkpoint. Raises BrokenTask when it is not a whole one, or its sources are not Kafka's."""
    if METADATA not in files.names(checkpoint):
        raise BrokenTask(f"{FIELD}: {checkpoint} is no checkpoint of a streaming query: it has no file {METADATA}")
    try:
        batch, newest = last_commit(checkpoint, files), last_offset(checkpoint, files)
        if batch is None:
            raise BrokenTask(f"{FIELD}: the application has finished no batch, so there is nothing to import")
        planned = planned_batch(checkpoint, batch, files)
        stateful = bool(operators_of(checkpoint, files))
    except BrokenCheckpoint as error:
        raise BrokenTask(
            f"{FIELD}: it cannot be read, perhaps since an older Spark wrote it: {error.detail}"
        ) from error
    unfinished = newest if newest is not None and newest > batch else None
    sources = tuple(_source(number, line) for number, line in enumerate(planned.sources))
    return Application(batch, unfinished, planned, sources, stateful)


def problems(found: Application, config: JobConfig, reads: Sequence[Input]) -> Iterator[str]:
    """Why the checkpoint cannot become the job's, the most telling first. `reads`: the inputs of the job's query, in
    the order of its sources. Pure."""
    names = [source.full_topic for source in reads]
    if len({topic_and_cluster(name)[0] for name in names}) != len(set(names)):
        yield f"the job reads {', '.join(names)}, and a checkpoint of Spark does not tell topics of one name apart"
    if len(found.sources) != len(reads) or not all(map(_may_be_of, found.sources, reads)):
        topics = ", ".join(" and ".join(sorted(source.topics)) or "no topic" for source in found.sources)
        yield f"its query reads {topics} in this order, the job's query reads {', '.join(names)}"
    key_groups = set(range(key_group_count(config)))
    for topic, offsets in (pair for source in found.sources for pair in source.topics.items()):
        if offsets.keys() != key_groups:
            yield (
                f"it has offsets of {len(offsets)} partitions of {topic}, and the job's input has "
                f"{len(key_groups)} key_groups: set key_groups to the number of partitions that the application read"
            )
    if found.stateful:
        yield from _state_problems(found.planned.metadata["conf"], config)


def _may_be_of(source: SourceOffsets, read: Input) -> bool:
    """Whether the input has all topics of a source, which names them without their cluster, or excludes them."""
    topics = [full_topic(topic, read.cluster) for topic in source.topics]
    return bool(topics) and all(read.reads(topic) or read.excludes(topic) for topic in topics)


def inputs_read_by(frame: DataFrame, config: JobConfig) -> tuple[Input, ...]:
    """The input of each source of a job's query, in the order in which Spark writes them into its offsets log."""
    leaves: Any = frame._jdf.queryExecution().analyzed().collectLeaves()
    relations = [leaves.apply(number) for number in range(leaves.size())]
    return tuple(_input_of(relation, config) for relation in relations if relation.isStreaming())


def _input_of(relation: Any, config: JobConfig) -> Input:
    options = relation.extraOptions()
    asked = tuple(options.get(name) for name in ("cluster", "assign", "subscribePattern"))
    return next(source for source in config.inputs.values() if asked == _asked(source, config))


def _asked(source: Input, config: JobConfig) -> tuple[str | None, ...]:
    """What tells the source of an input from the others of its query, which all read the same key groups."""
    topics = topic_options(source, key_group_ranges(config)[0])
    return source.cluster, topics.get("assign"), topics.get("subscribePattern")


def _state_problems(conf: Any, config: JobConfig) -> Iterator[str]:
    store = conf.get(_STORE, STATE_STORES["heap"])
    if store != STATE_STORES[config.state_backend]:
        fits = next((name for name, each in STATE_STORES.items() if each == store), None)
        yield f"its state is in {store}, the job has state_backend {config.state_backend}" + (
            f": set it to {fits}" if fits else ", and no state_backend reads that"
        )
    encoding = conf.get(_ENCODING, _ROWS)
    if encoding != _ROWS:
        yield f"its state is encoded as {encoding}; only {_ROWS}, which is Spark's default, can be moved"


def _source(number: int, line: str | None) -> SourceOffsets:
    try:
        if line is None:
            raise BrokenCheckpoint("it has read nothing yet")
        return parse_line(line)
    except BrokenCheckpoint as error:
        raise BrokenTask(
            f"{FIELD}: source {number} of its query does not read Kafka topics: {error.detail}. Only queries over "
            "topics can be imported"
        ) from error


def _inputs_read(runtime: Runtime, config: JobConfig) -> tuple[Input, ...]:
    """Those of the job's own query."""
    try:
        return inputs_read_by(_frame(runtime, config), config)
    finally:
        release_frames()


def _frame(runtime: Runtime, config: JobConfig) -> DataFrame:
    """The job's query over its inputs, in a session of its own that never runs it."""
    session = runtime.session(config, "", "")
    part = key_group_ranges(config)[0]
    return result_of(session, read_inputs(session, config, part, runtime.settings), config, runtime.settings)


class _Importing(Taking):
    def __init__(self, runtime: Runtime, request: ImportRequest, found: Application) -> None:
        super().__init__(runtime, request)
        self._checkpoint, self._found = request.checkpoint, found

    def save(self, index: int) -> SavedTask:
        """The application's checkpoint. Raises BrokenTask when it went on meanwhile."""
        batch = self.copy(self._checkpoint, index)
        if batch != self._found.batch:
            raise BrokenTask(f"{FIELD}: the application still runs: stop it, then import its checkpoint again")
        return SavedTask(index=index, batch=batch, unfinished=self._found.unfinished)
