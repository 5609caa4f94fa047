"""The container's lease while no Shard Manager answers: by the Task Service, which renews the rows of all containers
over one connection; by the store itself only when that is away too.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from penstock.control.clock import Clock
from penstock.control.errors import LeaseLost, Unavailable
from penstock.control.logs import logger
from penstock.tasks.ownership import OwnedShards
from penstock.wire.cluster import LeaseRequest
from penstock.wire.task_client import TaskServiceClient
from services.task_manager.membership.stored_lease import LeaseStore

log = logger(__name__)
_KEPT_SECONDS = 20.0


def longest_call(lease_seconds_left: float, lease_seconds: float, *, calls: int) -> float:
    """For how long the next of `calls` may be tried, at all addresses together, before the store is asked. Pure.

    A quarter of the lease is kept for the store, also when no address answers. Never less than an 80th of it.
    """
    most = kept = lease_seconds / 4
    if lease_seconds_left <= 0.0:
        return most
    return max(lease_seconds / 80, min(most, (lease_seconds_left - kept) / calls))


class RelayedLease:
    """Both ways follow the rules of the one row, so it does not matter which answers first.

    When the Task Service goes away, the containers do not turn to the store together: each waits a random part of
    `spread_seconds` first, but not longer than until 20 s of its lease are left. `lease_seconds_left`: 0 without one.
    """

    def __init__(
        self,
        container: str,
        service: TaskServiceClient,
        store: LeaseStore,
        lease_seconds_left: Callable[[], float],
        clock: Clock,
        random: Random,
        *,
        spread_seconds: float,
    ) -> None:
        self._container = container
        self._service = service
        self._store = store
        self._lease_seconds_left = lease_seconds_left
        self._clock = clock
        self._random = random
        self._spread_seconds = spread_seconds
        self._store_at: float | None = None

    def renew(self, incarnation: str) -> OwnedShards:
        """As `StoredLease.renew`."""
        request = LeaseRequest(container=self._container, incarnation=incarnation)
        return self._ask(request, lambda: self._store.renew(incarnation))

    def adopt(self, former: str, incarnation: str) -> OwnedShards:
        """As `StoredLease.adopt`."""
        request = LeaseRequest(container=self._container, incarnation=incarnation, former=former)
        return self._ask(request, lambda: self._store.adopt(former, incarnation))

    def _ask(self, request: LeaseRequest, ask_store: Callable[[], OwnedShards]) -> OwnedShards:
        try:
            owned = self._service.renew_lease(request)
        except LeaseLost:
            raise
        except Exception as error:  # noqa: BLE001 -- whatever it is, the store can still renew the lease
            self._wait_for_turn(error)
            return ask_store()
        self._store_at = None
        return owned

    def _wait_for_turn(self, error: Exception) -> None:
        """Raises Unavailable until it is this container's turn to ask the store."""
        now, left = self._clock.monotonic(), self._lease_seconds_left()
        if self._store_at is None:
            self._store_at = now + self._random.uniform(0.0, self._spread_seconds)
            log.warning("asks the store for its lease", in_seconds=round(self._store_at - now, 1), error=str(error))
        is_urgent = 0.0 < left <= _KEPT_SECONDS
        if now < self._store_at and not is_urgent:
            raise Unavailable(f"the store is asked in {self._store_at - now:.1f} s: {error}")
