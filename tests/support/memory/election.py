"""An `Election` on the in-memory store."""

from __future__ import annotations

from tests.support.memory.store import LeaseEntry, MemoryPort, MemoryStore


class MemoryElection(MemoryPort):
    """As `penstock.store.election.StoreElection`."""

    def __init__(self, store: MemoryStore, name: str, holder: str, *, lease_seconds: float, url: str = "") -> None:
        super().__init__(store)
        self._name = name
        self._holder = holder
        self._lease_seconds = lease_seconds
        self._url = url

    def take(self) -> int | None:
        with self._transaction() as store:
            held = store.leases.get(self._name)
            if held is not None and held.holder != self._holder and store.now() <= held.good_until:
                return None
            renews = held is not None and held.holder == self._holder
            epoch = held.epoch if held is not None and renews else self._next_epoch(held)
            store.leases[self._name] = LeaseEntry(self._holder, epoch, store.now() + self._lease_seconds, self._url)
            return epoch

    def _next_epoch(self, held: LeaseEntry | None) -> int:
        return max(1 if held is None else held.epoch + 1, int(self._store.now() * 1_000_000))

    def release(self) -> None:
        with self._transaction() as store:
            held = store.leases.get(self._name)
            if held is not None and held.holder == self._holder:
                held.good_until = float("-inf")
