"""The loop that keeps the specs: the stored ones at the start, then deltas, each with a digest of all specs.

A full snapshot is fetched by a container without specs, at once. It is also fetched when the digest says that its specs
are not those of the Task Service: after a random time, since after an upgrade all containers may find that together. No
snapshot takes the container back: of one incarnation of the job store only newer commits count.
"""

from __future__ import annotations

import math
from random import Random

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
        random: Random,
    ) -> None:
        self._container = container
        self._source = source
        self._file = file
        self._clock = clock
        self._settings = settings
        self._random = random
        self._specs: SpecCache | None = None
        self._full_at: float | None = None
        self._full_not_before = float("-inf")

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
        seconds = self._seconds_until_full(known, now)
        if seconds > 0.0:
            seconds = min(seconds, self._settings.delta_wait_seconds)
            return self._take(known, self._source.delta(known.commit_number, seconds, known.store))
        # Not again at once: when a Task Service and this one do not agree on digests, each answer would be a full one.
        self._full_at, self._full_not_before = None, now + self._settings.full_fetch_seconds
        return self._take(known, self._source.full(known.commit_number, known.store))

    def _seconds_until_full(self, known: SpecCache, now: float) -> float:
        """Until these specs are fetched in full; for ever while they are those of the Task Service."""
        if known.is_proven():
            self._full_at = None
            return math.inf
        if self._full_at is None:
            pause_seconds = self._random.uniform(0.0, self._settings.full_spread_seconds)
            self._full_at = max(now + pause_seconds, self._full_not_before)
            in_seconds = round(self._full_at - now, 1)
            DIFFERENCES.inc()
            log.error(
                "specs differ from the task service's",
                commit_number=known.commit_number,
                jobs=len(known.jobs),
                full_in_seconds=in_seconds,
            )
        return self._full_at - now

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
