"""The container's own lease row in the job store, as a `LeaseStore`."""

from __future__ import annotations

from sqlalchemy import Engine

from penstock.store.engine import transaction
from penstock.store.shards import adopt_own_lease, renew_own_lease
from services.task_manager.ports import StoredShards


class StoredLease:
    """See `ports.LeaseStore`."""

    def __init__(self, engine: Engine, container: str) -> None:
        self._engine = engine
        self._container = container

    def renew(self, incarnation: str) -> StoredShards:
        """Holds the fail-over off. Raises LeaseLost, Unavailable."""
        with transaction(self._engine) as connection:
            return StoredShards(*renew_own_lease(connection, self._container, incarnation))

    def adopt(self, former: str, incarnation: str) -> StoredShards:
        """Takes the place of a former life. Raises LeaseLost, Unavailable."""
        with transaction(self._engine) as connection:
            return StoredShards(*adopt_own_lease(connection, self._container, former, incarnation))
