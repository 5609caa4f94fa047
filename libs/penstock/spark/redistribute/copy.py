"""State moves while the job runs: a copy into the new generation, which the redistribution only brings up to date.

    round 1    all rows of the last finished batch of each old task, as version 1 of the new stores
    round n    what the old tasks have changed since, by Spark's files of changes, as version n
    verify     the old stores are read once more, at the versions that were copied, and compared with the new ones
    COPIED     the manifest is written

The old tasks run meanwhile and notice nothing: their checkpoints are only read, and nobody claims them. After the
stop `finish_copy` brings the last changes: its work grows with the changes, not with the state. Whatever does not fit
leads to a full copy after the stop, as without this.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic

from py4j.protocol import Py4JJavaError

from penstock.control.errors import BrokenCheckpoint
from penstock.control.logs import logger
from penstock.spark.checkpoint import last_commit, planned_batch
from penstock.spark.failures import failure_of
from penstock.spark.redistribute.keys import KeyFunction, state_keys
from penstock.spark.redistribute.manifest import CopyManifest
from penstock.spark.redistribute.move import Moved, StateMover, rows
from penstock.spark.redistribute.new import NewGeneration
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.redistribute.stores import OldState, StateStoreInfo, operators_of
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import CopyReport, CopyRequest, RedistributionRequest

log = logger(__name__)

MOST_ROUNDS = 10
# So few changed rows are moved after the stop in some hundredths of a second.
FEW_ROWS = 5_000
_REPORT_SECONDS = 1.0


def copy_state(runtime: Runtime, request: CopyRequest) -> CopyReport:
    """Copies the state of the tasks of `request.source`, which may run, into the stores of `request.target`.

    Safe to repeat. Raises what a redistribution raises, and Py4JJavaError when files of the old tasks go meanwhile.
    """
    return _Copy(runtime, request).run()


def goes_on(changed: Sequence[int]) -> bool:
    """Whether another round of changes pays, given the changed rows of the rounds so far. Pure."""
    if not changed:
        return True
    shrinks = len(changed) < 2 or changed[-1] <= changed[-2] // 2
    return changed[-1] > FEW_ROWS and shrinks and len(changed) < MOST_ROUNDS


class _Copy:
    def __init__(self, runtime: Runtime, request: CopyRequest) -> None:
        self._runtime = runtime
        self._request = request
        self._specs = task_specs(request.job, request.source)
        self._new = NewGeneration(runtime, task_specs(request.job, request.target))
        self._changed: list[int] = []

    def run(self) -> CopyReport:
        """All rounds. Without state there is nothing to do."""
        begun = monotonic()
        self._new.clear()
        old = self._states()
        operators = operators_of(old[0].checkpoint, self._runtime.files) if old else ()
        stores = tuple(store for operator in operators for store in operator.stores)
        if not stores:
            return CopyReport()
        self._new.describe_operators(operators, old[0].checkpoint)
        source, target = self._request.source, self._request.target
        keys = state_keys(self._new.tasks[0].session, source, target, stores, self._runtime.settings)
        if not StateMover(self._runtime, old, self._new.tasks, stores, keys).has_plain_changes():
            return CopyReport()
        manifest = self._copy(old, stores, keys)
        self._runtime.before_claim()
        self._new.note_copy(manifest)
        report = CopyReport(
            rows=manifest.rows,
            rounds=manifest.version,
            changed=tuple(self._changed),
            seconds=round(monotonic() - begun, 3),
        )
        log.info("state copied", job=self._request.job, generation=target.generation, **report.model_dump())
        return report

    def _copy(
        self, old: list[OldState], stores: tuple[StateStoreInfo, ...], keys: dict[int, KeyFunction]
    ) -> CopyManifest:
        mover = StateMover(self._runtime, old, self._new.tasks, stores, keys)
        with self._reporting(lambda: f"copies state, {mover.moved():,} rows so far"):
            tallies = mover.move()
        version = 1
        while goes_on(self._changed):
            self._runtime.before_claim()
            since, old = old, self._states()
            if old == since:
                break
            version += 1
            self._runtime.report(f"copied {rows(tallies):,} rows of state, and changes in round {version}")
            mover = StateMover(self._runtime, old, self._new.tasks, stores, keys, version)
            self._changed.append(mover.change(versions_since(since, old)))
        self._runtime.report(f"copied {rows(tallies):,} rows of state, and compares them")
        mover.verify(mover.tally() if version > 1 else tallies)
        return CopyManifest(
            source=self._request.source,
            target=self._request.target,
            version=version,
            copied=self._versions(old),
            stores=stores,
            keys=keys,
            rows=rows(tallies),
        )

    @contextmanager
    def _reporting(self, what: Callable[[], str]) -> Iterator[None]:
        """Says how far a long call is, once a second."""
        over = threading.Event()

        def repeat() -> None:
            while not over.wait(_REPORT_SECONDS):
                self._runtime.report(what())

        thread = threading.Thread(target=repeat, name="copy-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _states(self) -> list[OldState]:
        """The state of each task that has finished a batch, after the last one that it has finished by now."""
        files = self._runtime.files
        found: list[OldState] = []
        for spec in self._specs:
            checkpoint = self._runtime.checkpoint(spec.job, spec.generation, spec.index)
            batch_id = last_commit(checkpoint, files)
            if batch_id is not None:
                metadata = planned_batch(checkpoint, batch_id, files).metadata
                found.append(OldState(checkpoint, spec.key_groups, batch_id, metadata))
        return found

    def _versions(self, old: Sequence[OldState]) -> tuple[int, ...]:
        versions = {state.key_groups: state.version for state in old}
        return tuple(versions.get(spec.key_groups, 0) for spec in self._specs)


def versions_since(since: Sequence[OldState], old: Sequence[OldState]) -> list[int]:
    """For each of `old` the version that it had before; 0 for a task that had finished no batch. Pure."""
    versions = {state.checkpoint: state.version for state in since}
    return [versions.get(state.checkpoint, 0) for state in old]


def finish_copy(
    runtime: Runtime,
    request: RedistributionRequest,
    new: NewGeneration,
    old: Sequence[OldState],
    versions: tuple[int, ...],
    stores: tuple[StateStoreInfo, ...],
) -> Moved | None:
    """Brings the copy in the new generation up to date; None without one that fits: then all must be moved.

    `old`: the stopped tasks that have finished a batch; `versions`: of all, 0 for one that has not.
    """
    manifest = new.copied()
    if manifest is None:
        return None
    why = manifest.misfit(request.source, request.target, versions, stores)
    if why is not None:
        log.warning("the copy of the state does not fit", job=request.job, why=why)
        return None
    new.forget_copy()
    since = [copied for copied, version in zip(manifest.copied, versions, strict=True) if version]
    if all(copied == state.version for copied, state in zip(since, old, strict=True)):
        return Moved(manifest.version, manifest.rows, changed=0)
    version = manifest.version + 1
    try:
        changed = StateMover(runtime, old, new.tasks, stores, manifest.keys, version).change(since)
    except (Py4JJavaError, BrokenCheckpoint) as error:
        log.warning("the copy of the state cannot be brought up to date", job=request.job, why=failure_of(error).error)
        return None
    return Moved(version, manifest.rows, changed)
