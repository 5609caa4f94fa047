"""The container's own lease row in the job store, as a `LeaseStore`, and patience with the store."""

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


class PatientLease:
    """A `LeaseStore` that waits so long for another one and no longer: a store may accept a question and never answer.

    The heartbeats, which ask it, must go on: the Shard Manager may be back meanwhile. One question is open at a time,
    and its late answer is not heard, so a lease is never counted from it.
    """

    def __init__(self, store: LeaseStore, timeout_seconds: float) -> None:
        self._store = store
        self._timeout_seconds = timeout_seconds
        self._asked: Future[StoredShards] | None = None

    def renew(self, incarnation: str) -> StoredShards:
        """See `ports.LeaseStore`."""
        return self._in_time(lambda: self._store.renew(incarnation))

    def adopt(self, former: str, incarnation: str) -> StoredShards:
        """See `ports.LeaseStore`."""
        return self._in_time(lambda: self._store.adopt(former, incarnation))

    def _in_time(self, ask: Callable[[], StoredShards]) -> StoredShards:
        if self._asked is not None and not self._asked.done():
            raise Unavailable("the job store has not answered the last question yet")
        self._asked = answer = Future[StoredShards]()
        threading.Thread(target=_answer, args=(ask, answer), name="stored-lease", daemon=True).start()
        try:
            return answer.result(self._timeout_seconds)
        except TimeoutError as error:
            raise Unavailable(f"the job store did not answer in {self._timeout_seconds:g} s") from error


def _answer(ask: Callable[[], StoredShards], answer: Future[StoredShards]) -> None:
    try:
        answer.set_result(ask())
    except BaseException as error:  # noqa: BLE001 -- it is the asker's
        answer.set_exception(error)
