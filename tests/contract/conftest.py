"""The job store of a contract suite: each suite runs on a real one and on one in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from penstock.store.cluster import ask_for_shards
from penstock.store.engine import connect, transaction
from services.shard_manager.store.owners import ensure_shards
from tests.support.control.clock import FakeClock
from tests.support.memory.store import MemoryStore

SHARDS = 4


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """A real job store with four shards that nobody owns."""
    engine = connect(database_url)
    with transaction(engine) as connection:
        ask_for_shards(connection, SHARDS)
        ensure_shards(connection, SHARDS)
    yield engine
    engine.dispose()


@pytest.fixture
def memory() -> MemoryStore:
    """The same in memory, at a time that stands still."""
    store = MemoryStore(FakeClock().monotonic, SHARDS)
    store.give(range(SHARDS), None)
    return store
