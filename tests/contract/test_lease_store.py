"""The contract of `StoredLease`: a container's own row, which decides against the fail-over."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from sqlalchemy import Engine, text

from penstock.control.errors import LeaseLost, Unavailable
from penstock.store.availability import set_availability
from penstock.store.engine import transaction
from penstock.store.running import RUNNING_COMMIT
from penstock.tasks.ownership import DRAIN_GRACE, DRAINING, Member
from penstock.wire.cluster import LeaseRequest
from penstock.wire.task_client import TaskServiceClient
from services.shard_manager.store import members as stored_members
from services.shard_manager.store import owners as stored_owners
from services.task_manager.membership.relayed_lease import RelayedLease
from services.task_manager.membership.stored_lease import LeaseStore, StoredLease
from services.task_service.store.leases import answer_one, renew_all
from tests.support import identity
from tests.support.control.clock import FakeClock
from tests.support.memory.ownership import MemoryLeaseStore
from tests.support.memory.store import MemoryStore
from tests.support.store.statements import counted_statements
from tests.support.store.unreachable import NOWHERE, unreachable_engine
from tests.support.task_service.service import task_service

MEMBER = Member("c1", "one", "http://c1", "local", 1.0, 1, 1)
FAIL_OVER_SECONDS = 60.0


class PostgresForm:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def store(self, container: str = "c1", *, away: bool = False) -> LeaseStore:
        return StoredLease(unreachable_engine() if away else self.engine, container)

    def register(self, owned: list[int]) -> int:
        with transaction(self.engine) as connection:
            stored_members.register(connection, MEMBER, empty=True)
            before = stored_owners.read_owners(connection)
            changes = {shard: stored_owners.Change("c1", before[shard].epoch) for shard in owned}
            return next(iter(stored_owners.record_owners(connection, changes).values())).epoch

    def commit(self, number: int) -> None:
        with transaction(self.engine) as connection:
            values = {"number": number, "name": RUNNING_COMMIT}
            connection.execute(text("UPDATE counters SET value = :number WHERE name = :name"), values)

    def declare_lost(self, incarnation: str) -> bool:
        with transaction(self.engine) as connection:
            return stored_members.declare_lost(connection, {"c1": incarnation}, FAIL_OVER_SECONDS) == {"c1"}

    def drain(self, seconds_ago: float | None) -> None:
        with transaction(self.engine) as connection:
            now = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
            until = None if seconds_ago is None else now - timedelta(seconds=seconds_ago)
            set_availability(connection, "c1", DRAINING, reason="repair", drain_until=until)

    def let_it_expire(self) -> None:
        with transaction(self.engine) as connection:
            connection.execute(text("UPDATE containers SET lease_renewed_at = lease_renewed_at - interval '1 hour'"))


class TaskServiceForm(PostgresForm):
    """By a real Task Service; the container's own way to the store is cut."""

    def __init__(self, engine: Engine, url: str) -> None:
        super().__init__(engine)
        self.url = url

    def store(self, container: str = "c1", *, away: bool = False) -> LeaseStore:
        store: LeaseStore = super().store(container, away=True)
        service = TaskServiceClient(NOWHERE if away else self.url, identity=identity.container(container))
        return RelayedLease(container, service, store, lambda: 5.0, FakeClock(), Random(1), spread_seconds=10.0)


class MemoryForm:
    def __init__(self, store: MemoryStore) -> None:
        self.memory = store

    def store(self, container: str = "c1", *, away: bool = False) -> MemoryLeaseStore:
        store = MemoryLeaseStore(self.memory, container)
        store.down = away
        return store

    def register(self, owned: list[int]) -> int:
        self.memory.members["c1"] = MEMBER
        return self.memory.give(owned, "c1")

    def commit(self, number: int) -> None:
        self.memory.counters[RUNNING_COMMIT] = number

    def declare_lost(self, incarnation: str) -> bool:
        return self.memory.declare_lost({"c1": incarnation}, FAIL_OVER_SECONDS) == {"c1"}

    def drain(self, seconds_ago: float | None) -> None:
        until = None if seconds_ago is None else self.memory.wall_time() - timedelta(seconds=seconds_ago)
        self.memory.set_availability("c1", DRAINING, drain_until=until)

    def let_it_expire(self) -> None:
        self.memory.renewed_at["c1"] -= 3600.0


@pytest.fixture(params=["postgres", "task service", "memory"])
def form(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "memory":
        yield MemoryForm(request.getfixturevalue("memory"))
        return
    engine = request.getfixturevalue("engine")
    if request.param == "postgres":
        yield PostgresForm(engine)
        return
    with task_service(request.getfixturevalue("database_url")) as service:
        yield TaskServiceForm(engine, service.has_read().url)


def test_a_renewal_tells_what_the_container_owns(form: Any) -> None:
    epoch = form.register([1, 3])
    assert form.store().renew("one")[:2] == ({1: epoch, 3: epoch}, epoch)


def test_a_renewal_holds_the_fail_over_off_until_it_is_old(form: Any) -> None:
    form.register([1])
    form.store().renew("one")
    assert not form.declare_lost("one")
    form.let_it_expire()
    assert form.declare_lost("one")


def test_a_container_that_never_renewed_can_be_lost_and_knows_it_then(form: Any) -> None:
    form.register([1])
    assert form.declare_lost("one")
    for call in (lambda: form.store().renew("one"), lambda: form.store().adopt("one", "two")):
        with pytest.raises(LeaseLost):
            call()


def test_an_adopting_life_keeps_the_shards_under_new_epochs_and_ends_the_former(form: Any) -> None:
    """1. A life owns two shards. 2. Its successor adopts them, and hears how far commits are. 3. The former is
    replaced; the successor renews."""
    before = form.register([1, 3])
    form.commit(7)
    adopted = form.store().adopt("one", "two")
    assert adopted.shards.keys() == {1, 3}
    assert min(adopted.shards.values()) > before
    assert adopted.version == max(adopted.shards.values())
    assert adopted.commit_number == 7
    with pytest.raises(LeaseLost):
        form.store().renew("one")
    assert form.store().renew("two") == adopted
    assert not form.declare_lost("one"), "an order against the former life is none against its successor"
    assert not form.declare_lost("two"), "adopting is a renewal"


@pytest.mark.parametrize("seconds_ago", [None, -60.0, DRAIN_GRACE.total_seconds() - 30])
def test_a_container_that_is_still_drained_renews(form: Any, seconds_ago: float | None) -> None:
    form.register([1])
    form.drain(seconds_ago)
    assert form.store().renew("one").shards.keys() == {1}


def test_once_its_drain_is_over_no_life_of_a_container_renews(form: Any) -> None:
    """So that it stops what it did not give away, and can be declared lost."""
    form.register([1])
    form.drain(DRAIN_GRACE.total_seconds() + 1)
    for call in (lambda: form.store().renew("one"), lambda: form.store().adopt("one", "two")):
        with pytest.raises(LeaseLost):
            call()
    assert form.declare_lost("one")


def test_a_life_whose_adoption_was_not_answered_asks_again(form: Any) -> None:
    """The store had done it; the shards get other epochs once more, and are the container's all the time."""
    form.register([1, 3])
    unheard = form.store().adopt("one", "two")
    heard = form.store().adopt("one", "two")
    assert heard.shards.keys() == {1, 3}
    assert min(heard.shards.values()) > unheard.version
    assert form.store().renew("two") == heard


def test_a_life_that_was_never_registered_owns_nothing(form: Any) -> None:
    form.register([1])
    with pytest.raises(LeaseLost):
        form.store().renew("another")
    with pytest.raises(LeaseLost):
        form.store().adopt("another", "two")
    with pytest.raises(LeaseLost):
        form.store("c2").renew("one")
    assert form.store().renew("one").shards.keys() == {1}


def test_a_store_that_is_away_is_unavailable_and_no_lease_is_lost(form: Any) -> None:
    epoch = form.register([1])
    cut_off = form.store(away=True)
    for call in (lambda: cut_off.renew("one"), lambda: cut_off.adopt("one", "two")):
        with pytest.raises(Unavailable):
            call()
    assert form.store().renew("one")[:2] == ({1: epoch}, epoch)


def test_many_leases_are_renewed_at_once_each_by_its_own_row(engine: Engine) -> None:
    """1. Three containers; one was declared lost. 2. All ask at once, and so does a former life. 3. Each that has a
    lease gets its own shards, and nobody is refused for what another one asked."""
    form = PostgresForm(engine)
    epoch = form.register([1, 3])
    with transaction(engine) as connection:
        for name in ("c2", "c3"):
            stored_members.register(connection, MEMBER._replace(name=name), empty=True)
        assert stored_members.declare_lost(connection, {"c3": "one"}, FAIL_OVER_SECONDS)
    requests = [LeaseRequest(container=name, incarnation="one") for name in ("c1", "c2", "c3", "c4")]
    stale = LeaseRequest(container="c1", incarnation="zero")
    answers = renew_all(engine, [*requests, stale])
    assert [each.known for each in answers] == [True, True, False, False, False]
    assert [dict(each.shards) for each in answers[:2]] == [{1: epoch, 3: epoch}, {}]
    adopted = answer_one(engine, LeaseRequest(container="c1", incarnation="two", former="one"))
    assert adopted.shards.keys() == {1, 3}
    assert not renew_all(engine, requests[:1])[0].known
    assert not answer_one(engine, requests[0]).known


def test_many_leases_take_one_statement_each_for_rows_and_shards(engine: Engine) -> None:
    with transaction(engine) as connection:
        for number in range(50):
            stored_members.register(connection, MEMBER._replace(name=f"c{number}"), empty=True)
    requests = [LeaseRequest(container=f"c{number}", incarnation="one") for number in range(50)]
    with counted_statements(engine) as statements:
        assert all(each.known for each in renew_all(engine, requests))
    assert len(statements) == 3
