"""The job store of a contract suite: each suite runs on a real one and on one in memory."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from penstock.store.cluster import ask_for_shards
from penstock.store.engine import transaction
from services.shard_manager.store.owners import ensure_shards
from tests.support.control.clock import FakeClock
from tests.support.memory.store import MemoryStore
from tests.support.store.lent import LentDatabase

SHARDS = 4


@pytest.fixture
def engine(database: LentDatabase) -> Engine:
    """A real job store with four shards that nobody owns."""
    with transaction(database.engine) as connection:
        ask_for_shards(connection, SHARDS)
        ensure_shards(connection, SHARDS)
    return database.engine


@pytest.fixture
def memory() -> MemoryStore:
    """The same in memory, at a time that stands still."""
    store = MemoryStore(FakeClock().monotonic, SHARDS)
    store.give(range(SHARDS), None)
    return store
