"""The loop that keeps the specs: the stored ones at the start, then deltas, each with a digest of all specs.

A full snapshot is fetched by a container without specs, and when the digest says that its specs are not those of the
Task Service. No snapshot takes the container back: of one incarnation of the job store only newer commits count.
"""

from __future__ import annotations

from penstock.control.clock import Clock
from penstock.control.logs import logger
from penstock.wire.cluster import Snapshot
from penstock.wire.task_client import TaskServiceClient
from services.task_manager.container import Container
from services.task_manager.metrics import DIFFERENCES, FULL_SNAPSHOTS
from services.task_manager.settings import TaskManagerSettings
from services.task_manager.specs.snapshot_file import SnapshotFile
from services.task_manager.specs.spec_cache import SpecCache, is_older, is_other_store, updated

log = logger(__name__)
_QUICK_ANSWER_SECONDS = 0.5


class SpecLoop:
    """One step is one fetch."""

    def __init__(
        self,
        container: Container,
        source: TaskServiceClient,
        file: SnapshotFile,
        clock: Clock,
        settings: TaskManagerSettings,
    ) -> None:
        self._container = container
        self._source = source
        self._file = file
        self._clock = clock
        self._settings = settings
        self._specs: SpecCache | None = None
        self._full_due_at = float("-inf")

    def load(self) -> None:
        """Takes the specs from the disk, until the Task Service sends newer ones."""
        snapshot = self._file.load()
        if snapshot is not None:
            self._specs = updated(None, snapshot)
            self._container.take_specs(self._specs)

    def step(self) -> float:
        """Fetches once, which may wait for a commit. Returns the seconds until the next fetch."""
        started_at = self._clock.monotonic()
        if self._fetch(started_at):
            return self._settings.delta_gap_seconds
        # Without this pause a Task Service that answers at once, with nothing new, would be asked all the time.
        was_quick = self._clock.monotonic() - started_at < _QUICK_ANSWER_SECONDS
        return self._settings.reconcile_seconds if was_quick else 0.0

    def _fetch(self, now: float) -> bool:
        known = self._specs
        if known is None:
            return self._take(None, self._source.full())
        if known.is_proven() or now < self._full_due_at:
            seconds = self._settings.delta_wait_seconds
            if not known.is_proven():
                seconds = min(seconds, self._full_due_at - now)
            return self._take(known, self._source.delta(known.commit_number, seconds, known.store))
        DIFFERENCES.inc()
        log.error("specs differ from the task service's", commit_number=known.commit_number, jobs=len(known.jobs))
        # Not again at once: when a Task Service and this one do not agree on digests, each answer would be a full one.
        self._full_due_at = now + self._settings.full_fetch_seconds
        return self._take(known, self._source.full(known.commit_number, known.store))

    def _take(self, known: SpecCache | None, snapshot: Snapshot) -> bool:
        if known is not None and is_other_store(known, snapshot):
            log.error("job store has another incarnation", incarnation=snapshot.store, known=known.store)
            self._container.start_afresh("the job store has another incarnation")
        elif known is not None and is_older(known, snapshot):
            log.warning("older specs refused", commit_number=snapshot.commit_number, known=known.commit_number)
        if snapshot.full:
            FULL_SNAPSHOTS.inc()
        specs = updated(known, snapshot, self._container.sharding())
        before, self._specs = self._specs, specs
        if specs == before:
            return False
        # Stored before anything is reported: after a restart no older specs than the reported ones may be used.
        self._file.save(specs)
        self._container.take_specs(specs)
        return True
