"""One task on a host: a streaming query with its own session, fence and checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from time import monotonic
from typing import Any, NamedTuple

from pyspark.errors.exceptions.captured import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.config.model import FilesOutput, JobConfig
from penstock.control.errors import Fenced, Unavailable
from penstock.control.logs import logger
from penstock.control.process import wait_until
from penstock.model.reports import TaskProgress, TaskState
from penstock.spark.analysis.placement import Placements, goes_by_time
from penstock.spark.balance import Ends
from penstock.spark.channel import Access
from penstock.spark.checkpoint import COLLECTED, is_clean, last_commit, last_offset, task_checkpoint
from penstock.spark.consumers import Consumers
from penstock.spark.fence import FENCE, Mark
from penstock.spark.files import Files, files_of
from penstock.spark.inputs.checks import check_inputs, require_no_problem
from penstock.spark.inputs.identity import require_noted_topics
from penstock.spark.inputs.malformed import MalformedRecords
from penstock.spark.inputs.task_topics import take_topics, task_topics
from penstock.spark.measure.malformed import Counts
from penstock.spark.measure.quiet import order_of
from penstock.spark.measure.rates import Batches
from penstock.spark.measure.traffic import Samples
from penstock.spark.measure.unread import Seen
from penstock.spark.noted_marks import note_marks
from penstock.spark.parts import require_clusters
from penstock.spark.paths import require_allowed_paths
from penstock.spark.pools import SchedulerPools
from penstock.spark.query import result_of
from penstock.spark.sections import stream_part
from penstock.spark.session import detach_unused_listeners, task_session
from penstock.spark.settings import SparkSettings
from penstock.spark.sinks import writer
from penstock.spark.sinks.files import bind_output
from penstock.spark.sinks.interrupts import interrupt_sink
from penstock.spark.sources import connection_options, read_inputs
from penstock.spark.streams import read_streams
from penstock.spark.table_versions import TableVersions, read_tables
from penstock.spark.topics import Topic
from penstock.spark.triggers import FINISH_TRIGGER, trigger_interval
from penstock.tasks.spec import TaskSpec

log = logger(__name__)


@dataclass(frozen=True)
class Runtime:
    """What a host gives to its tasks. `spark` is its own session; `holder` names the host in FENCE files.

    `report` takes what a host task says of its progress. `before_claim` is called right before a checkpoint is claimed,
    a savepoint gets or loses its name, or a folder is deleted; what it raises prevents that.
    """

    spark: SparkSession
    settings: SparkSettings
    holder: str
    before_claim: Callable[[], None] = lambda: None
    report: Callable[[str], None] = lambda text: None
    pools: SchedulerPools = field(default_factory=SchedulerPools)
    placements: Placements = field(default_factory=Placements)
    consumers: Consumers = field(default_factory=Consumers)

    @cached_property
    def watch(self) -> Any:
        """The JVM's list of running queries."""
        jvm: Any = self.spark._jvm
        return jvm.io.penstock.host.QueryWatch

    @property
    def java_context(self) -> Any:
        """The JVM's Spark context."""
        return self.spark.sparkContext._jsc.sc()

    @cached_property
    def hooks(self) -> Any:
        """The JVM's list of what is done before a task's batch is committed."""
        jvm: Any = self.spark._jvm
        return jvm.io.penstock.checkpoint.BatchHooks

    @cached_property
    def files(self) -> Files:
        """The files of checkpoints and savepoints."""
        return files_of(self.settings.checkpoint_root, self.spark)

    def checkpoint(self, job: str, generation: int, index: int) -> str:
        """The Hadoop path of a task's checkpoint."""
        return task_checkpoint(self.settings.checkpoint_root, job, generation, index)

    def for_job(self, access: Access) -> Runtime:
        """The same for work on one job, which may use what `access` has."""
        return replace(self, settings=self.settings.for_job(access.connections, access.secrets))

    def claim(self, checkpoint: str, epoch: int | None, mark: Mark | None = None) -> str:
        """Makes this host the only owner of a checkpoint and returns its token.

        Raises what `before_claim` raises, Fenced for a newer owner or a generation that was collected, Unavailable
        where there are no file locks unless the settings allow that.
        """
        self.before_claim()
        generation, _, _ = checkpoint.rpartition("/")
        if COLLECTED in self.files.names(generation):
            raise Fenced(f"FENCED: {generation} was collected: its job runs in a later generation, or is forgotten")
        if not self.settings.unlocked_checkpoints and not self.files.has_fence(checkpoint):
            raise Unavailable(f"{checkpoint} has no file locks, and the setting unlocked_checkpoints is off")
        return self.files.claim(checkpoint, epoch, self.holder, mark)

    def session(self, config: JobConfig, checkpoint: str, token: str) -> SparkSession:
        """A session for a task of the job, which publishes to the checkpoint as long as `token` is its newest."""
        return task_session(self.spark, config, checkpoint, token, unlocked=self.settings.unlocked_checkpoints)


class StopOutcome(NamedTuple):
    """How a stopped task left its checkpoint: clean when no batch is planned but not committed."""

    clean: bool
    last_offset: int | None
    last_commit: int | None


class RunningTask:
    """A task from its start to its end. Its methods are called by one thread at a time.

    Without an epoch it goes on in the epoch that its checkpoint is in (`penstock.spark.files.LocalFiles.claim`).
    `mark`: the commit that asks for this. `topics`: its inputs at the start. `prepared` gives, for the token,
    the frame of this query that was made ahead. What follows is what the host last saw.
    """

    def __init__(self, runtime: Runtime, spec: TaskSpec, epoch: int | None, mark: Mark | None = None) -> None:
        self.runtime = runtime
        self.spec = spec
        self.epoch = epoch
        self._mark = mark
        self.checkpoint = runtime.checkpoint(spec.job, spec.generation, spec.index)
        self.token = ""
        self.topics: Mapping[str, Topic] = {}
        self.state = TaskState.STARTING
        self.progress: TaskProgress | None = None
        self.traffic: Samples = ()
        self.batches: Batches | None = None
        self.newest: Seen = ()
        self.unread_since: float | None = None
        self.rows_per_offset: tuple[float, ...] = ()
        self.malformed: Counts = ()
        self.late: Counts = ()
        self.input_problems: Mapping[str, str] = {}
        self.prepared: Callable[[str], TaskFrame] | None = None
        self._frame: TaskFrame | None = None
        self._query: StreamingQuery | None = None
        self._pool: str | None = None

    @property
    def run_id(self) -> str | None:
        """Spark's id of the present run; None when no query was started."""
        return None if self._query is None else str(self._query.runId)

    @cached_property
    def goes_by_time(self) -> bool:
        """Whether the running query has windows or other operators that go by event time."""
        return self._frame is None or goes_by_time(self._frame.frame, self.spec.config)

    @property
    def is_active(self) -> bool:
        """Whether a query of the task runs."""
        return self._query is not None and bool(self._query.isActive)

    def start(self) -> None:
        """Claims the checkpoint and starts the query on it.

        Raises Fenced when a newer owner has the checkpoint, BrokenTask or Spark's errors when the query cannot run or
        an input is not as declared, Unavailable when Kafka does not answer.
        """
        spec, is_prepared = self.spec, self.prepared is not None
        self.claim()
        interval = trigger_interval(self.spec.config.trigger_interval_seconds, self.spec.task_id)
        self._run(interval, starting=True)
        log.info("task started", task=spec.task_id, revision=spec.revision, token=self.token, prepared=is_prepared)

    def claim(self) -> None:
        """Takes the checkpoint: no earlier owner publishes anything from now on. Raises Fenced for a newer owner."""
        self.token = self.runtime.claim(self.checkpoint, self.epoch, self._mark)
        if self.prepared is not None:
            self._frame, self.prepared = self.prepared(self.token), None
        note_marks(self.runtime.files, self.spec.config, self.checkpoint)

    def _require_inputs(self) -> None:
        """Keys are sampled before the first batch only: later starts must be quick, and the host goes on sampling."""
        is_new = last_offset(self.checkpoint, self.runtime.files) is None
        config, clusters = self.spec.config, self.runtime.settings.cluster
        self.topics = topics = self._topics()
        require_no_problem(check_inputs(config, clusters, topics, self.runtime.spark if is_new else None))
        take_topics(config, self.runtime.files, self.checkpoint, topics)

    def _require_noted_topics(self) -> None:
        require_noted_topics(self.runtime.files, [self.checkpoint], self._topics)

    def _topics(self) -> dict[str, Topic]:
        return task_topics(self.spec.config, self.runtime.settings.cluster, self.runtime.files, self.checkpoint)

    def follow(self, spec: TaskSpec) -> None:
        """From now on the task's spec is `spec`. A query that is quiescing finishes its batch and gets no more rows;
        with a `level_ms` above 0, until `read_to`. Any other reads on."""
        if self._query is not None and spec.quiescing:
            self.runtime.watch.quiesce(self._query._jsq, *order_of(spec))
        elif self._query is not None:
            self.runtime.watch.release(self._query._jsq)
        # Not before: whoever sees the order in the spec may say at once where the query reads to.
        self.spec = spec

    def read_to(self, level_ms: int, stop_at: Ends) -> None:
        """The task, if it is still under the order to `level_ms`, reads exactly to these offsets. From any thread."""
        query = self._query
        if query is not None:
            self.runtime.watch.readTo(query._jsq, level_ms, json.dumps(stop_at))

    def finish_pending(self) -> None:
        """Runs the query for the batch that is planned but not committed, and for no other. After `claim`.

        Raises Unavailable when it does not finish in time, BrokenTask when a topic was made again, Spark's errors.
        """
        self._require_noted_topics()
        pending = last_offset(self.checkpoint, self.runtime.files)
        self._run(FINISH_TRIGGER)
        try:
            wait_until(lambda: self._has_finished(pending), self.runtime.settings.settle_timeout_seconds, "the batch")
        except TimeoutError as error:
            told = f"the pending batch {pending} of {self.spec.task_id} did not finish in time"
            raise Unavailable(f"{told} (PENSTOCK_SETTLE_TIMEOUT_SECONDS)") from error
        finally:
            self._halt(patient=True)

    def run_until(self, reached: Callable[[], bool], timeout_seconds: float, stop_at: Ends | None = None) -> None:
        """Runs the query, batch after batch, until `reached`; then stops it, with no batch pending. After `claim`.

        With `stop_at`, offsets by topic and key group, the inputs are read exactly to there. Raises TimeoutError when
        that takes too long, BrokenTask when a topic was made again, Spark's errors when the query fails.
        """
        self._require_noted_topics()
        if stop_at is not None:
            self._frame = make_frame(self.runtime, self.spec, self.checkpoint, self.token, stop_at)
        self._run("0 seconds")
        try:
            wait_until(lambda: reached() or self._require_no_failure(), timeout_seconds, f"{self.spec.task_id}")
        finally:
            self.stop(finish_pending=True)

    def stop(self, *, finish_pending: bool, patient: bool = True) -> StopOutcome:
        """Stops the query, between two batches when `patient` and possible, and finishes a pending batch if asked.

        Raises Unavailable when the pending batch does not finish, Spark's errors when it fails or the stop does.
        """
        self._halt(patient)
        if finish_pending and not is_clean(self.checkpoint, self.runtime.files):
            self.finish_pending()
        of = (self.checkpoint, self.runtime.files)
        outcome = StopOutcome(is_clean(*of), last_offset(*of), last_commit(*of))
        log.info("task stopped", task=self.spec.task_id, revision=self.spec.revision, clean=outcome.clean)
        return outcome

    def forget(self) -> None:
        """Gives up what the host keeps for the query, which has ended."""
        self.runtime.watch.remove(self.spec.task_id)
        if self._pool is not None:
            self.runtime.pools.give_back(self._pool)
            self._pool = None
        self.runtime.hooks.remove(f"{self.checkpoint}/{FENCE}", self.token)
        if self._frame is not None:
            detach_unused_listeners(self._frame.frame.sparkSession, self._query)

    def _run(self, interval: str, *, starting: bool = False) -> None:
        """Starts the query in a scheduler pool of its own, so that a heavy neighbour does not hold it up.

        `starting`: inputs and the folder of an output must be as they were left. An order to take no more rows stands
        before the first batch.
        """
        task_id, watch, context = self.spec.task_id, self.runtime.watch, self.runtime.java_context
        watch.starts(context, task_id)
        try:
            if self.spec.quiescing:
                watch.quiesceFromStart(task_id, *order_of(self.spec))
            self._query = self._started(interval, starting)
        except BaseException:
            self.forget()
            raise
        finally:
            watch.started(context, task_id)
        watch.add(task_id, self._query._jsq, self._built().malformed.java)

    def _started(self, interval: str, starting: bool) -> StreamingQuery:
        frame, malformed, tables = self._built()
        # After what needs no Kafka: a query that cannot run is told also while Kafka is away.
        session, kept = frame.sparkSession, None
        if starting:
            self._require_inputs()
        self.runtime.consumers.share(session, self.spec, self.topics, alone=not starting)
        if isinstance(self.spec.config.output, FilesOutput):
            root = self.runtime.settings.checkpoint_root
            kept = bind_output(session, root, self.spec, self.spec.config.output, starting=starting)
        stream = writer(frame, self.spec, self.runtime.settings).option("checkpointLocation", self.checkpoint)
        self._pool = self._pool or self.runtime.pools.take()
        session.sparkContext.setLocalProperty("spark.scheduler.pool", self._pool)
        for hook in (kept, malformed.java, None if tables is None else tables.java):
            if hook is not None:
                self.runtime.hooks.add(f"{self.checkpoint}/{FENCE}", self.token, hook)
        return stream.queryName(self.spec.task_id).trigger(processingTime=interval).start()

    def _built(self) -> TaskFrame:
        if self._frame is None:
            self._frame = make_frame(self.runtime, self.spec, self.checkpoint, self.token)
        return self._frame

    def _halt(self, patient: bool) -> None:
        self.runtime.watch.remove(self.spec.task_id)
        if self._query is not None:
            wait_seconds = self.runtime.settings.boundary_wait_seconds if patient else 0.0
            if not self.runtime.watch.stop(self._query._jsq, int(wait_seconds * 1000)):
                self._end_by_force(self._query)
        self.forget()

    def _end_by_force(self, query: StreamingQuery) -> None:
        """Interrupts a query that its first interruption did not end, and what it waits for, until it has ended.

        Spark cancels the jobs of the query each time, and kills the Python workers of tasks that do not end. What
        survives all that ends the host, if the supervisor says so.
        """
        begun = monotonic()
        self.runtime.consumers.failed(self.spec.job)
        while True:
            seconds = round(monotonic() - begun, 1)
            where = str(self.runtime.watch.stackOf(query._jsq))
            log.warning("query does not end", task=self.spec.task_id, seconds=seconds, at=where)
            interrupt_sink(self.spec.task_id)
            if self.runtime.watch.end(query._jsq):
                return

    def _has_finished(self, pending: int | None) -> bool:
        """Raises the query's error when it has failed."""
        return last_commit(self.checkpoint, self.runtime.files) == pending or self._require_no_failure()

    def _require_no_failure(self) -> bool:
        assert self._query is not None
        failure = self._query._jsq.exception()
        if failure.isDefined():
            # With the exception of the JVM, for the kind of a failure is told by the classes of its causes.
            raise StreamingQueryException(origin=failure.get())
        return False


class TaskFrame(NamedTuple):
    """The streaming frame of a task's query, what becomes of the malformed records of its inputs, and the versions of
    its tables; without a checkpoint None."""

    frame: DataFrame
    malformed: MalformedRecords
    tables: TableVersions | None


def make_frame(runtime: Runtime, spec: TaskSpec, checkpoint: str, token: str, stop_at: Ends | None = None) -> TaskFrame:
    """The frame of a task's query, in a session of its own (`Runtime.session`).

    With `stop_at`, offsets by topic and key group, it reads its inputs exactly to there. Raises BrokenTask or Spark's
    errors when the query cannot run as written, or would bring rows together that are in several tasks.
    """
    config, settings = spec.config, runtime.settings
    require_allowed_paths(config, settings.path_roots)
    require_clusters(config, settings)
    session = runtime.session(config, checkpoint, token)
    malformed = MalformedRecords(session, spec.job, config, partial(connection_options, settings), settings.kafka)
    inputs = read_inputs(session, config, spec.key_groups, settings, stop_at, malformed)
    part = stream_part(runtime.files, settings.checkpoint_root, spec, checkpoint, stop_at)
    inputs |= read_streams(session, config, settings.path_roots, part)
    versions = versions_of(runtime, session, checkpoint) if checkpoint else None
    result = result_of(session, inputs, config, settings, read_tables(session, config, settings.path_roots, versions))
    runtime.placements.require(result, inputs, config)
    malformed.refuse_null_keys(result, partial(runtime.placements.may_split, result, inputs, config))
    return TaskFrame(result, malformed, versions)


def versions_of(runtime: Runtime, session: SparkSession, checkpoint: str) -> TableVersions:
    """The versions of a task's tables, which are noted in the checkpoint by the present token of the session."""
    return TableVersions(session, checkpoint, runtime.files, runtime.settings.path_roots)
