"""The loop that keeps the specs: a full snapshot once a period, deltas in between, the stored snapshot at the start."""

from __future__ import annotations

from penstock.control.clock import Clock
from penstock.control.logs import logger
from penstock.wire.cluster import Snapshot
from penstock.wire.task_client import TaskServiceClient
from services.task_manager.container import Container
from services.task_manager.settings import TaskManagerSettings
from services.task_manager.specs.snapshot_file import SnapshotFile
from services.task_manager.specs.spec_cache import SpecCache, updated

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
        if known is None or now >= self._full_due_at:
            snapshot = self._source.full()
            self._full_due_at = now + self._settings.full_fetch_seconds
            return snapshot is not None and self._take(known, snapshot)
        snapshot = self._source.delta(
            known.commit_number, min(self._settings.delta_wait_seconds, self._full_due_at - now)
        )
        if snapshot.full and snapshot.commit_number < known.commit_number:
            # The store itself was restored: a Task Service that is only behind would catch up before it answers.
            log.error("job store went back", commit_number=snapshot.commit_number, known=known.commit_number)
            return self._take(None, snapshot)
        return self._take(known, snapshot)

    def _take(self, known: SpecCache | None, snapshot: Snapshot) -> bool:
        specs = updated(known, snapshot, self._container.sharding())
        if specs == self._specs:
            return False
        self._specs = specs
        # Stored before anything is reported: after a restart no older specs than the reported ones may be used.
        self._file.save(specs)
        self._container.take_specs(specs)
        return True
