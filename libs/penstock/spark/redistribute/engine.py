"""Redistribution: another generation of a job's checkpoints, for other tasks or threads.

    finish   the old tasks are claimed, and their own generation finishes pending batches
    level    tasks that lag read on to the others' watermark
    move     offsets by key group, state by key group and partition, into checkpoints that nobody has started
    verify   the new state is read again and compared; then the first batch of the new checkpoints is committed

Until the last step the new checkpoints are worth nothing, and the old ones can be resumed at any moment. A savepoint
as the source is only read: the first two phases have nothing to do. Where the state was copied while the tasks ran
(`copy.py`), only what has changed since is moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import monotonic

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from penstock.config.stream_names import stream_log
from penstock.control.errors import BrokenTask, Unavailable
from penstock.control.logs import logger
from penstock.spark.failures import failure_of
from penstock.spark.fence import Mark
from penstock.spark.redistribute.bus import InputEnds
from penstock.spark.redistribute.copy import finish_copy
from penstock.spark.redistribute.keys import state_keys
from penstock.spark.redistribute.level import common_watermark
from penstock.spark.redistribute.move import Moved, StateMover, rows
from penstock.spark.redistribute.new import NewGeneration
from penstock.spark.redistribute.offsets import SourceOffsets, grown, merged, require_growth, sliced, topics_in
from penstock.spark.redistribute.old import OldGeneration
from penstock.spark.redistribute.pending_outputs import pending_written_by, without_removed
from penstock.spark.redistribute.positions import Position, SavedGeneration, task_specs
from penstock.spark.redistribute.seal import require_sealable
from penstock.spark.redistribute.stores import metadata_for, operators_of
from penstock.spark.sections import adopt, begun_in, has_stream_logs, require_same_streams, sections_folder
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import Layout, RedistributionReport, RedistributionRequest
from penstock.tasks.spec import key_group_count

log = logger(__name__)


def redistribute(runtime: Runtime, request: RedistributionRequest) -> RedistributionReport:
    """Writes the checkpoints of `request.target` from those of `request.source`; safe to repeat.

    Raises BrokenTask when the job's state cannot be moved so, BrokenCheckpoint when checkpoints contradict themselves
    or the new state is not the old, Fenced when somebody does the same, Unavailable when trying again may help, and
    Spark's errors when old tasks cannot finish their batches.
    """
    return _Redistribution(runtime, request).run()


class _Redistribution:
    def __init__(self, runtime: Runtime, request: RedistributionRequest) -> None:
        self._runtime = runtime
        self._request = request
        self._seconds: dict[str, float] = {}
        self._saved: SavedGeneration | None = None
        self._uncopied: str | None = None
        self._notes: frozenset[str] = frozenset()
        self._has_state = False
        self._new = NewGeneration(runtime, task_specs(request.job, request.target), _mark_of(request))
        self._bus = InputEnds(runtime.settings.cluster)

    def run(self) -> RedistributionReport:
        """All phases, in their order."""
        positions, counts = self._source()
        watermark_ms = common_watermark([position.watermark_ms for position in positions], self._has_state)
        with self._phase("move"):
            self._require_growth(positions)
            begun = [position for position in positions if position.batch is not None]
            if not begun:
                self._new.clear()
                self._begin(positions)
                return RedistributionReport(seconds=self._seconds)
            moved = self._move(begun, positions)
            self._plan(moved.version - 1, begun, positions, watermark_ms)
        with self._phase("verify"):
            moved.verify()
            if self._saved is not None:
                self._saved.require_same()
            self._new.commit_batch(moved.version - 1, watermark_ms)
        report = RedistributionReport(
            **counts,
            state_rows=moved.rows,
            changed_rows=moved.changed,
            uncopied=self._uncopied,
            watermark_ms=watermark_ms or None,
            seconds=self._seconds,
        )
        log.info(
            "redistributed", generation=self._request.target.generation, job=self._request.job, **report.model_dump()
        )
        return report

    def _source(self) -> tuple[Sequence[Position], dict[str, int]]:
        """Where the tasks of the source are, with nothing left to do in it; what of the report had to be done."""
        layout, sealed = self._request.source, self._request.seals or self._request.source
        if sealed.savepoint is None:
            require_sealable(self._runtime, sealed)
        if layout.savepoint is not None:
            self._saved = saved = SavedGeneration(self._runtime, layout, layout.savepoint)
            saved.require_same_topics()
            self._notes, self._has_state = saved.notes(), saved.has_state()
            positions = saved.positions()
            # Unread rows of tasks whose watermark is below the greatest may be late.
            return positions, {"behind": len(saved.lagging(positions, lambda _: False))}
        with self._phase("finish"):
            old, settled = self._finished(layout)
        with self._phase("level"):
            levelled = old.level(layout.config.completeness)
        # Tasks that read on may have taken topics in.
        self._notes, self._has_state = old.notes(), old.has_state()
        return old.positions(), {"settled": settled, **levelled}

    def _finished(self, layout: Layout) -> tuple[OldGeneration, int]:
        """The old generation without pending batches, and how many it had. Where one cannot end in all outputs, it ends
        in those that stay: so a side output that fails can be removed."""
        every = self._written_by(layout)
        old = self._taken_over(every)
        try:
            return old, old.finish_pending()
        except (BrokenTask, Unavailable, PySparkException, Py4JJavaError) as error:
            staying = without_removed(every.config, self._request.target.config)
            if staying == every.config:
                raise
            removed = sorted(every.config.side_outputs.keys() - staying.side_outputs.keys())
            log.warning("a pending batch ends without removed outputs", removed=removed, error=failure_of(error).error)
        old = self._taken_over(every.model_copy(update={"config": staying}))
        return old, old.finish_pending()

    def _taken_over(self, layout: Layout) -> OldGeneration:
        old = OldGeneration(self._runtime, self._request.job, layout, _mark_of(self._request))
        old.take_over()
        return old

    def _written_by(self, layout: Layout) -> Layout:
        """The source, without outputs on Kafka clusters that are gone."""
        gone = self._runtime.settings.gone_clusters
        config = pending_written_by(layout.config, self._request.target.config, gone)
        return layout.model_copy(update={"config": config})

    def _begin(self, positions: Sequence[Position]) -> None:
        """No old task has finished a batch: all that there is are the offsets to begin with."""
        sources = self._merged(positions)
        self._take_notes_of_sources(positions)
        self._new.note_topics(self._notes)
        for task in self._new.tasks:
            self._new.begin(task, sliced(sources, task.spec.key_groups))

    def _move(self, begun: Sequence[Position], positions: Sequence[Position]) -> Moved:
        """The state, in the new stores: what a copy has of it stays, where it can be brought up to date."""
        checkpoint = begun[0].task.checkpoint
        operators = operators_of(checkpoint, self._runtime.files)
        stores = tuple(store for operator in operators for store in operator.stores)
        old = [position.state for position in begun]
        if self._saved is None and stores:
            request, versions = (
                self._request,
                tuple(0 if position.batch is None else position.state.version for position in positions),
            )
            found = finish_copy(self._runtime, request, self._new, old, versions, stores)
            if isinstance(found, Moved):
                return found
            if found is not None:
                log.warning("the copy of the state is not used", job=request.job, why=found.why)
                self._uncopied = found.why
        self._new.clear()
        self._new.describe_operators(operators, checkpoint)
        if not stores:
            return Moved(version=1)
        source, target = self._request.source, self._request.target
        keys = state_keys(self._new.tasks[0].session, source, target, stores, self._runtime.settings)
        mover = StateMover(self._runtime, old, self._new.tasks, stores, keys)
        tallies = mover.move()
        return Moved(version=1, rows=rows(tallies), verify=partial(mover.verify, tallies))

    def _plan(self, batch_id: int, begun: Sequence[Position], positions: Sequence[Position], watermark_ms: int) -> None:
        """The watermark of the first batch is the common one of the last batches, at most `watermark_ms`."""
        sources = self._merged(positions)
        batches = [position.metadata for position in begun]
        of_batches_ms = common_watermark([batch["batchWatermarkMs"] for batch in batches], self._has_state)
        metadata = metadata_for(
            batches[0],
            self._request.target.config.threads_per_task,
            min(of_batches_ms, watermark_ms),
            max(batch["batchTimestampMs"] for batch in batches),
        )
        self._take_notes_of_sources(positions)
        self._new.note_topics(self._notes)
        for task in self._new.tasks:
            self._new.plan_batch(task, batch_id, metadata, sliced(sources, task.spec.key_groups))

    def _take_notes_of_sources(self, positions: Sequence[Position]) -> None:
        """Spark's Kafka source notes only where it began, which the offsets say, and so do streams with key groups."""
        if self._request.source.config.streams and key_group_count(self._request.source.config) == 1:
            self._new.take_notes_of_sources(positions[0].task.checkpoint)

    def _merged(self, positions: Sequence[Position]) -> tuple[SourceOffsets, ...]:
        """Key groups that the source does not have yet are read from their beginning."""
        request = self._request
        known = merged([position.sources for position in positions], key_group_count(request.source.config))
        saved = request.source.savepoint
        if saved is not None and not self._has_sections(saved.job, known):
            root = self._runtime.settings.checkpoint_root
            folders = sections_folder(root, saved.job), sections_folder(root, request.job)
            return adopt(self._runtime.files, known, *folders, request.target.generation)
        fresh = range(key_group_count(self._request.source.config), key_group_count(self._request.target.config))
        return grown(known, self._bus.beginnings, fresh)

    def _has_sections(self, saved_job: str, sources: Sequence[SourceOffsets]) -> bool:
        """Whether the sections in which a savepoint counts, if any, are those that this job reads now. Those of a
        deleted job of the same name are deleted when it is collected."""
        if not has_stream_logs(sources):
            return True
        ran = self._request.seals
        if saved_job != self._request.job or ran is None:
            return False
        checkpoints = [self._runtime.checkpoint(saved_job, ran.generation, index) for index in range(len(ran.ranges))]
        own = [begun_in(checkpoint, self._runtime.files) for checkpoint in checkpoints]
        logs = [stream_log(name) for name in topics_in(sources)]
        return all(any(begun.get(log.stream) == log.generation for begun in own) for log in logs)

    def _require_growth(self, positions: Sequence[Position]) -> None:
        """Raises BrokenTask when the key groups change and state or offsets would not fit them."""
        source, target = self._request.source, self._request.target
        before, after = key_group_count(source.config), key_group_count(target.config)
        require_same_streams(source.config, target.config)
        keeps_state = any(self._runtime.files.names(f"{position.task.checkpoint}/state") for position in positions)
        require_growth(before, after, keeps_state=keeps_state, single=len(source.ranges) == len(target.ranges) == 1)

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        begun = monotonic()
        try:
            yield
        finally:
            self._seconds[name] = round(monotonic() - begun, 3)


def _mark_of(request: RedistributionRequest) -> Mark | None:
    """Attempts after the same stop are ordered by their targets."""
    return None if request.stopped_at is None else Mark(request.stopped_at, request.target.generation)
