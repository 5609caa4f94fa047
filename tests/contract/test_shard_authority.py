"""The contract of `ShardManagerClient`: who is known, and which shards are its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from sqlalchemy import Engine

from penstock.control.errors import Unavailable
from penstock.control.process import wait_until
from penstock.store.engine import transaction
from penstock.wire.cluster import HeartbeatAnswer, HeartbeatRequest
from penstock.wire.shard_client import ShardManagerClient
from services.shard_manager.store.members import read_members
from tests.contract.conftest import SHARDS
from tests.support import identity
from tests.support.memory.ownership import MemoryShardAuthority
from tests.support.memory.store import MemoryStore
from tests.support.shard_manager.manager import shard_manager
from tests.support.store.unreachable import NOWHERE
from tests.support.task_manager.world import CAPACITY


class ShardManagerForm:
    def __init__(self, engine: Engine, url: str) -> None:
        self.engine = engine
        self.authority = ShardManagerClient(url, identity=identity.container("c1"))
        self.away = ShardManagerClient(NOWHERE)

    def lose(self, container: str, incarnation: str) -> None:
        """It says nothing any more."""
        wait_until(lambda: not self._member(container).live, 20, "the fail-over")
        wait_until(lambda: self._answers(incarnation), 20, "the leader to know that it is over")

    def _answers(self, incarnation: str) -> bool:
        with suppress(Unavailable):
            heartbeat(self.authority, incarnation)
            return True
        return False

    def _member(self, container: str) -> Any:
        with transaction(self.engine) as connection:
            return read_members(connection)[container]


class MemoryForm:
    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.authority = MemoryShardAuthority(store, lease_seconds=40.0)

    @property
    def away(self) -> ShardManagerClient:
        authority = MemoryShardAuthority(self.store, lease_seconds=40.0)
        authority.down = True
        return authority

    def lose(self, container: str, incarnation: str) -> None:
        assert self.store.declare_lost({container: incarnation}, 0.0) == {container}


@contextmanager
def a_shard_manager(request: pytest.FixtureRequest) -> Iterator[ShardManagerForm]:
    engine = request.getfixturevalue("engine")
    with shard_manager(request.getfixturevalue("database_url")) as manager:
        manager.lead()
        yield ShardManagerForm(engine, manager.url)


@contextmanager
def in_memory(request: pytest.FixtureRequest) -> Iterator[MemoryForm]:
    yield MemoryForm(request.getfixturevalue("memory"))


@pytest.fixture(params=[a_shard_manager, in_memory], ids=lambda make: make.__name__)
def form(request: pytest.FixtureRequest) -> Iterator[Any]:
    with request.param(request) as form:
        yield form


def heartbeat(
    authority: ShardManagerClient, incarnation: str, held: dict[int, int] | None = None, container: str = "c1"
) -> HeartbeatAnswer:
    request = HeartbeatRequest(
        container=container,
        incarnation=incarnation,
        url=NOWHERE,
        region="local",
        capacity=CAPACITY,
        held=held or {},
    )
    return authority.heartbeat(request)


def settled(authority: ShardManagerClient, incarnation: str) -> HeartbeatAnswer:
    """The answer once the container owns every shard."""

    def all_owned() -> HeartbeatAnswer | None:
        answer = heartbeat(authority, incarnation)
        return answer if len(answer.shards) == SHARDS else None

    found = wait_until(all_owned, 20, "all shards to be given")
    assert found is not None
    return found


def test_a_newcomer_is_known_and_owns_every_shard_when_it_is_alone(form: Any) -> None:
    first = heartbeat(form.authority, "one")
    assert first.known
    answer = settled(form.authority, "one")
    assert (answer.known, answer.shard_count, answer.shards.keys()) == (True, SHARDS, set(range(SHARDS)))
    assert answer.version >= max(answer.shards.values())
    assert answer.lease_seconds > 0
    assert heartbeat(form.authority, "one", answer.shards) == answer, "nothing has changed since"


def test_a_restarted_container_keeps_its_shards_and_its_former_life_is_told_to_stop(form: Any) -> None:
    """1. A life owns every shard. 2. A later, empty life takes its place under new epochs. 3. The former one comes
    back with what it held: it is not known, owns nothing, and does not push its successor out."""
    before = settled(form.authority, "one").shards
    after = settled(form.authority, "two")
    assert min(after.shards.values()) > max(before.values())
    former = heartbeat(form.authority, "one", before)
    assert (former.known, former.shards) == (False, {})
    assert heartbeat(form.authority, "two", after.shards).shards == after.shards


def test_nobody_joins_with_shards_in_its_hands(form: Any) -> None:
    refused = heartbeat(form.authority, "one", {0: 1})
    assert (refused.known, refused.shards) == (False, {})


def test_a_lost_life_is_not_known_and_a_new_one_is(form: Any) -> None:
    held = settled(form.authority, "one").shards
    form.lose("c1", "one")
    for shards in (held, {}):
        answer = heartbeat(form.authority, "one", shards)
        assert (answer.known, answer.shards) == (False, {})
    assert heartbeat(form.authority, "two").known


def test_an_authority_that_is_away_is_unavailable(form: Any) -> None:
    with pytest.raises(Unavailable):
        heartbeat(form.away, "one")
