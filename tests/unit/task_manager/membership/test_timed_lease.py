"""A store that never answers: the heartbeats go on without it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from penstock.control.errors import LeaseLost, Unavailable
from penstock.control.process import wait_until
from penstock.tasks.ownership import OwnedShards
from penstock.tasks.shards import Sharding
from services.task_manager.membership import stored_lease
from services.task_manager.membership.stored_lease import StoredLease

PATIENCE_S = 10.0
OWNED = OwnedShards({1: 7}, 7, Sharding(8), 1)


class SlowStore:
    """A store that answers when it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.asked: list[tuple[str, ...]] = []
        self.disposed = 0

    def answer(self, _: Any, container: str, *lives: str) -> OwnedShards:
        self.asked.append(lives)
        assert self.let_go.wait(PATIENCE_S)
        if "lost" in lives:
            raise LeaseLost("declared lost")
        return OWNED

    def lease(self, timeout_seconds: float) -> StoredLease:
        return StoredLease(self, "c", timeout_seconds)  # type: ignore[arg-type]

    def dispose(self) -> None:
        self.disposed += 1


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowStore]:
    store = SlowStore()
    monkeypatch.setattr(stored_lease, "transaction", nullcontext)
    for call in ("renew_own_lease", "adopt_own_lease"):
        monkeypatch.setattr(stored_lease, call, store.answer)
    yield store
    store.let_go.set()


def test_answers_and_refusals_come_through(store: SlowStore) -> None:
    store.let_go.set()
    lease = store.lease(PATIENCE_S)
    assert lease.renew("one") == lease.adopt("one", "two") == OWNED
    wait_until(lambda: store.disposed == 2, PATIENCE_S, "the connections to be closed")
    with pytest.raises(LeaseLost):
        lease.renew("lost")


def test_a_store_that_does_not_answer_is_unavailable_and_asked_once(store: SlowStore) -> None:
    """1. It does not answer. 2. It is not asked again meanwhile. 3. It answers, too late. 4. It is asked again."""
    lease = store.lease(0.01)
    for _ in range(3):
        with pytest.raises(Unavailable):
            lease.renew("one")
    assert store.asked == [("one",)]
    store.let_go.set()
    wait_until(lambda: _answers(lease), PATIENCE_S, "the store to be asked again")
    assert len(store.asked) > 1


def _answers(lease: StoredLease) -> bool:
    try:
        return lease.renew("one") == OWNED
    except Unavailable:
        return False
