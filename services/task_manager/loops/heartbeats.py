"""The loop that keeps the lease: from the Shard Manager; while it does not answer, by the container's row in the store,
which the Task Service renews, or without it this process."""

from __future__ import annotations

from penstock.control.clock import Clock
from penstock.control.errors import LeaseLost
from penstock.control.logs import logger
from penstock.tasks.ownership import OwnedShards
from penstock.wire.shard_client import ShardManagerClient
from services.task_manager.container import Container
from services.task_manager.loops.worker import Outage
from services.task_manager.membership.stored_lease import LeaseStore
from services.task_manager.settings import TaskManagerSettings
from services.task_manager.specs.files import IncarnationFile

log = logger(__name__)


class HeartbeatLoop:
    """One step is one heartbeat."""

    def __init__(
        self,
        container: Container,
        authority: ShardManagerClient,
        store: LeaseStore,
        incarnations: IncarnationFile,
        clock: Clock,
        settings: TaskManagerSettings,
    ) -> None:
        self._container = container
        self._authority = authority
        self._store = store
        self._incarnations = incarnations
        self._clock = clock
        self._settings = settings
        self._outage = Outage("shard manager", clock)

    def step(self) -> float:
        """Sends a heartbeat. Returns the seconds until the next one. Raises Unavailable when the store is away, too."""
        request = self._container.heartbeat_request()
        if request is None:
            return self._settings.retry_pause_seconds
        self._incarnations.asking(request.incarnation)
        sent_at = self._clock.monotonic()
        try:
            answer = self._authority.heartbeat(request)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the lease must not run out by it
            self._outage.failed(error)
            return self._renew_from_store(request.incarnation)
        self._outage.ended()
        self._container.heartbeat_answered(request, answer, sent_at)
        if answer.known:
            self._incarnations.granted(request.incarnation)
        return self._settings.heartbeat_seconds

    def _renew_from_store(self, incarnation: str) -> float:
        sent_at = self._clock.monotonic()
        try:
            stored = self._stored(incarnation)
        except LeaseLost as error:
            log.warning("no lease from the store", error=error.detail)
            if self._container.was_granted(incarnation):
                self._container.lease_refused(incarnation)
            return self._settings.retry_pause_seconds
        self._container.lease_stored(incarnation, stored, sent_at, self._settings.container_lease_seconds)
        self._incarnations.granted(incarnation)
        return self._settings.heartbeat_seconds

    def _stored(self, incarnation: str) -> OwnedShards:
        """Renews the lease of an incarnation that has one; a new one replaces a former one. Raises LeaseLost."""
        if self._container.was_granted(incarnation):
            return self._store.renew(incarnation)
        for former in self._incarnations.former():
            try:
                return self._store.adopt(former, incarnation)
            except LeaseLost as error:
                log.info("former incarnation not replaced", former=former, error=error.detail)
        raise LeaseLost("the store knows no incarnation of this container that the present one may replace")
