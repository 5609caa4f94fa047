"""The container's own lease row in the job store, and a time limit for asking the store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from sqlalchemy import Engine

from penstock.control.errors import Unavailable
from penstock.store.engine import transaction
from penstock.store.shards import adopt_own_lease, renew_own_lease
from services.task_manager.ports import LeaseStore, StoredShards


class StoredLease:
    """The port on Postgres."""

    def __init__(self, engine: Engine, container: str) -> None:
        self._engine = engine
        self._container = container

    def renew(self, incarnation: str) -> StoredShards:
        """See `ports.LeaseStore`."""
        with transaction(self._engine) as connection:
            return StoredShards(*renew_own_lease(connection, self._container, incarnation))

    def adopt(self, former: str, incarnation: str) -> StoredShards:
        """See `ports.LeaseStore`."""
        with transaction(self._engine) as connection:
            return StoredShards(*adopt_own_lease(connection, self._container, former, incarnation))


class TimedLease:
    """A `LeaseStore` that waits for another one up to a time limit, since a store may accept a call and never answer.

    The heartbeats must go on meanwhile, because the Shard Manager may be back. One call is open at a time. An answer
    that comes after the limit is discarded, so a lease is never counted from it.
    """

    def __init__(self, store: LeaseStore, timeout_seconds: float) -> None:
        self._store = store
        self._timeout_seconds = timeout_seconds
        self._open_call: Future[StoredShards] | None = None

    def renew(self, incarnation: str) -> StoredShards:
        """See `ports.LeaseStore`."""
        return self._in_time(lambda: self._store.renew(incarnation))

    def adopt(self, former: str, incarnation: str) -> StoredShards:
        """See `ports.LeaseStore`."""
        return self._in_time(lambda: self._store.adopt(former, incarnation))

    def _in_time(self, call: Callable[[], StoredShards]) -> StoredShards:
        if self._open_call is not None and not self._open_call.done():
            raise Unavailable("the job store has not answered the last call yet")
        self._open_call = answer = Future[StoredShards]()
        threading.Thread(target=_answer, args=(call, answer), name="stored-lease", daemon=True).start()
        try:
            return answer.result(self._timeout_seconds)
        except TimeoutError as error:
            raise Unavailable(f"the job store did not answer in {self._timeout_seconds:g} s") from error


def _answer(call: Callable[[], StoredShards], answer: Future[StoredShards]) -> None:
    try:
        answer.set_result(call())
    except BaseException as error:  # noqa: BLE001 -- the caller raises it
        answer.set_exception(error)
