"""The container's own lease row in the job store, used while neither a Shard Manager nor a Task Service answers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from sqlalchemy import Connection, Engine

from penstock.control.errors import Unavailable
from penstock.store.engine import transaction
from penstock.store.shards import adopt_own_lease, renew_own_lease
from penstock.tasks.ownership import OwnedShards


class LeaseStore(Protocol):
    """Who renews the lease of a container that no Shard Manager answers. Raises LeaseLost, Unavailable."""

    def renew(self, incarnation: str) -> OwnedShards:
        """Renews the lease of an incarnation that has one."""
        ...

    def adopt(self, former: str, incarnation: str) -> OwnedShards:
        """Renews the lease for an incarnation that replaces a `former` one."""
        ...


class StoredLease:
    """Asks the store, which may accept a call and never answer, and waits up to a time limit.

    The heartbeats must go on meanwhile, because the Shard Manager may be back. One call is open at a time. An answer
    that comes after the limit is discarded, so a lease is never counted from it.
    Both calls raise LeaseLost when the row says that this container was declared lost or replaced. They raise
    Unavailable when the store cannot be reached or does not answer in time.
    """

    def __init__(self, engine: Engine, container: str, timeout_seconds: float = 5.0) -> None:
        self._engine = engine
        self._container = container
        self._timeout_seconds = timeout_seconds
        self._open_call: Future[OwnedShards] | None = None

    def renew(self, incarnation: str) -> OwnedShards:
        """Renews the lease, which postpones the fail-over."""
        return self._in_time(lambda connection: renew_own_lease(connection, self._container, incarnation))

    def adopt(self, former: str, incarnation: str) -> OwnedShards:
        """Renews the lease of a restarted Task Manager, whose incarnation replaces a former one."""
        return self._in_time(lambda connection: adopt_own_lease(connection, self._container, former, incarnation))

    def _in_time(self, call: Callable[[Connection], OwnedShards]) -> OwnedShards:
        if self._open_call is not None and not self._open_call.done():
            raise Unavailable("the job store has not answered the last call yet")
        self._open_call = answer = Future[OwnedShards]()
        threading.Thread(target=self._answer, args=(call, answer), name="stored-lease", daemon=True).start()
        try:
            return answer.result(self._timeout_seconds)
        except TimeoutError as error:
            raise Unavailable(f"the job store did not answer in {self._timeout_seconds:g} s") from error

    def _answer(self, call: Callable[[Connection], OwnedShards], answer: Future[OwnedShards]) -> None:
        try:
            with transaction(self._engine) as connection:
                owned = call(connection)
            answer.set_result(owned)
        except BaseException as error:  # noqa: BLE001 -- the caller raises it
            answer.set_exception(error)
        finally:
            # Thousands of containers cannot each keep a connection.
            self._engine.dispose()
