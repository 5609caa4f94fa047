"""State moves while the job runs: a copy into the new generation, which the redistribution only brings up to date.

    round 1    all rows of the last finished batch of each old task, as version 1 of the new stores
    round n    what the old tasks have changed since, by Spark's files of changes, as version n
    verify     the old stores are read once more, at the versions that were copied, and compared with the new ones
    round m    what the old tasks have changed since
    COPIED     the manifest is written

The old tasks run meanwhile and notice nothing: their checkpoints are only read, and nobody claims them. What is read
stays until the copy is whole (`pins.py`). After the stop `finish_copy` brings the last changes: its work grows with the
changes, not with the state. Whatever does not fit leads to a full copy after the stop, as without this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic
from uuid import uuid4

from py4j.protocol import Py4JJavaError

from penstock.control.errors import BrokenCheckpoint, Unavailable
from penstock.control.logs import logger
from penstock.control.repeat import repeating
from penstock.spark.checkpoint import last_commit, planned_batch
from penstock.spark.failures import failure_of
from penstock.spark.fence import BEFORE_ALL_STOPS
from penstock.spark.redistribute.keys import KeyFunction, state_keys
from penstock.spark.redistribute.manifest import CopyManifest
from penstock.spark.redistribute.move import Moved, StateMover, rows
from penstock.spark.redistribute.new import NewGeneration
from penstock.spark.redistribute.pins import Pins
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.redistribute.seal import require_sealable
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

    Copies nothing where the source could not be sealed: a redistribution would be refused, with the job stopped. Safe
    to repeat. Raises what a redistribution raises, with Unavailable in place of BrokenCheckpoint: tasks write and
    delete the files meanwhile, so what is wrong with them says nothing of a redistribution.
    """
    try:
        require_sealable(runtime, request.source)
    except Unavailable as error:
        return CopyReport(unsealable=error.detail)
    try:
        return _Copy(runtime, request).run()
    except BrokenCheckpoint as error:
        raise Unavailable(error.detail) from None


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
        self._new = NewGeneration(runtime, task_specs(request.job, request.target), BEFORE_ALL_STOPS)

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
        pins = Pins(self._runtime, self._specs, self._new.folder)
        try:
            rounds = _Rounds(self._runtime, pins, self._new, stores, keys)
            with pins.following():
                rounds.run()
        finally:
            pins.remove()
        self._runtime.before_claim()
        self._new.note_copy(self._manifest(rounds, stores, keys))
        report = CopyReport(
            rows=rounds.rows,
            rounds=rounds.version,
            changed=tuple(rounds.changed),
            seconds=round(monotonic() - begun, 3),
        )
        log.info("state copied", job=self._request.job, generation=target.generation, **report.model_dump())
        return report

    def _manifest(
        self, rounds: _Rounds, stores: tuple[StateStoreInfo, ...], keys: dict[int, KeyFunction]
    ) -> CopyManifest:
        versions = {state.key_groups: state.version for state in rounds.old}
        return CopyManifest(
            source=self._request.source,
            target=self._request.target,
            version=rounds.version,
            copied=tuple(versions.get(spec.key_groups, 0) for spec in self._specs),
            stores=stores,
            keys=keys,
            rows=rounds.rows,
            id=uuid4().hex,
        )

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


class _Rounds:
    """`old`: the state of the old tasks that the new stores have as their version `version`. `rows`: of round 1.
    `changed`: by round after it."""

    def __init__(
        self,
        runtime: Runtime,
        pins: Pins,
        new: NewGeneration,
        stores: tuple[StateStoreInfo, ...],
        keys: dict[int, KeyFunction],
    ) -> None:
        self.old = pins.states()
        self.version = 1
        self.rows = 0
        self.changed: list[int] = []
        self._runtime = runtime
        self._pins = pins
        self._mover_of = partial(StateMover, runtime, new=new.tasks, stores=stores, keys=keys)

    def run(self) -> None:
        """The comparison takes long, too. A round after it leaves only the last batches for after the stop: the tasks
        keep the changes of no others."""
        mover = self._mover_of(self.old)
        with repeating("copy-progress", partial(self._report_moved, mover), _REPORT_SECONDS):
            tallies = mover.move()
        self.rows = rows(tallies)
        mover = self._bring_changes() or mover
        self._runtime.report(f"copied {self.rows:,} rows of state, and compares them")
        mover.verify(mover.tally() if self.version > 1 else tallies)
        self._bring_changes()

    def _report_moved(self, mover: StateMover) -> None:
        self._runtime.report(f"copies state, {mover.moved():,} rows so far")

    def _bring_changes(self) -> StateMover | None:
        """Rounds of changes; the last one's mover, None without any."""
        changed: list[int] = []
        mover: StateMover | None = None
        while goes_on(changed):
            self._runtime.before_claim()
            since, self.old = self.old, self._pins.states()
            if self.old == since:
                break
            self.version += 1
            self._runtime.report(f"copied {self.rows:,} rows of state, and changes in round {self.version}")
            mover = self._mover_of(self.old, version=self.version)
            changed.append(mover.change(versions_since(since, self.old)))
        self.changed += changed
        return mover


def versions_since(since: Sequence[OldState], old: Sequence[OldState]) -> list[int]:
    """For each of `old` the version that it had before; 0 for a task that had finished no batch. Pure."""
    versions = {state.checkpoint: state.version for state in since}
    return [versions.get(state.checkpoint, 0) for state in old]


@dataclass(frozen=True)
class Unused:
    """A copy that is of no use: all state must be moved."""

    why: str


def finish_copy(
    runtime: Runtime,
    request: RedistributionRequest,
    new: NewGeneration,
    old: Sequence[OldState],
    versions: tuple[int, ...],
    stores: tuple[StateStoreInfo, ...],
) -> Moved | Unused | None:
    """Brings the copy in the new generation up to date; None without one.

    `old`: the stopped tasks that have finished a batch; `versions`: of all, 0 for one that has not.
    """
    manifest = new.copied()
    if manifest is None:
        return None
    why = manifest.misfit(request.source, request.target, versions, stores)
    if why is not None:
        return Unused(why)
    new.forget_copy()
    since = [copied for copied, version in zip(manifest.copied, versions, strict=True) if version]
    if all(copied == state.version for copied, state in zip(since, old, strict=True)):
        return Moved(manifest.version, manifest.rows, changed=0)
    version = manifest.version + 1
    try:
        changed = StateMover(runtime, old, new.tasks, stores, manifest.keys, version).change(since)
    except (Py4JJavaError, BrokenCheckpoint) as error:
        return Unused(f"it cannot be brought up to date: {failure_of(error).error}")
    return Moved(version, manifest.rows, changed)
