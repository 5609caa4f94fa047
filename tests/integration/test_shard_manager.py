"""The Shard Manager on a real store and real HTTP, with small Task Managers and short periods: stories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine, text

from penstock.control.errors import LeaseLost
from penstock.control.process import wait_until
from penstock.local.postgres import EmbeddedPostgres
from penstock.store import shards
from penstock.store.cluster import ask_for_shards
from penstock.store.engine import connect, transaction
from penstock.store.migrate import upgrade
from services.shard_manager.store import members as stored_members
from services.shard_manager.store import owners as stored_owners
from tests.support.shard_manager.cell import SmallTaskManager, shard_manager, task_managers
from tests.support.store.database import read_assignment

SHARDS = 12


@pytest.fixture
def own_postgres(servers_dir: Path) -> Iterator[EmbeddedPostgres]:
    """A migrated server of the test's own, that it may stop."""
    with EmbeddedPostgres(servers_dir / "own", durable=False) as server:
        upgrade(server.url)
        yield server


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = connect(database_url)
    with transaction(engine) as connection:
        ask_for_shards(connection, SHARDS)
    yield engine
    engine.dispose()


def owners(engine: Engine) -> dict[int, str | None]:
    with transaction(engine) as connection:
        return {shard: owner.container for shard, owner in stored_owners.read_owners(connection).items()}


def counts(engine: Engine) -> Counter[str | None]:
    return Counter(owners(engine).values())


def agree(engine: Engine, managers: list[SmallTaskManager]) -> bool:
    """Whether each Task Manager holds exactly what the store says that it owns, under the same epochs."""
    with transaction(engine) as connection:
        return all(manager.held == read_assignment(connection, manager.name) for manager in managers)


def is_spread(engine: Engine, managers: list[SmallTaskManager]) -> bool:
    expected = {manager.name: SHARDS // len(managers) for manager in managers}
    return counts(engine) == expected and agree(engine, managers)


def test_containers_that_join_get_their_share(engine, database_url):
    """1. Three containers join. 2. Each owns a third. 3. A fourth joins: shards move to it by DROP and ADD."""
    with shard_manager(database_url, moves_in_flight=2) as manager, task_managers("a", "b", "c", "d") as managers:
        manager.lead()
        *first, fourth = managers
        for each in first:
            each.beat(manager)
        wait_until(lambda: is_spread(engine, first), 10, "an even spread over three")
        before = owners(engine)
        fourth.beat(manager)
        wait_until(lambda: is_spread(engine, managers), 10, "an even spread over four")
        moved = {shard for shard, container in owners(engine).items() if container != before[shard]}
        assert len(moved) == SHARDS // 4
        dropped = [shard for each in first for verb, order in each.orders if verb == "drop" for shard in order.shards]
        assert sorted(dropped) == sorted(moved)


def test_a_lost_container_is_failed_over(engine, database_url):
    """1. Two containers share. 2. One dies without a word. 3. After the interval the other owns all, by new epochs."""
    with shard_manager(database_url) as manager, task_managers("a", "b") as managers:
        survivor, victim = managers
        for each in managers:
            each.beat(manager.lead())
        wait_until(lambda: is_spread(engine, managers), 10, "an even spread")
        victim.stop()
        wait_until(lambda: is_spread(engine, [survivor]), 10, "the fail-over")
        with transaction(engine) as connection:
            assert stored_members.read_members(connection)["b"].live is False
        assert min(survivor.held[shard] for shard in victim.held) > max(victim.held.values())


def test_a_container_that_comes_back_in_time_keeps_its_shards(engine, database_url):
    """1. A container owns all. 2. It restarts within the interval. 3. It keeps its shards, under new epochs."""
    with shard_manager(database_url) as manager, task_managers("a") as [former]:
        former.beat(manager.lead())
        wait_until(lambda: is_spread(engine, [former]), 10, "all shards")
        former.stop()
        with task_managers("a", incarnation="2") as [later]:
            answer = later.heartbeat(manager)
            assert answer is not None
            assert answer.known
            assert answer.shards.keys() == former.held.keys()
            assert min(answer.shards.values()) > max(former.held.values())
            refused = former.heartbeat(manager)
            assert refused is not None
            assert not refused.known


def test_a_container_that_comes_back_late_is_new_and_empty(engine, database_url):
    """1. One of two dies and is failed over. 2. Its old life is told so. 3. A new life joins, empty."""
    with shard_manager(database_url) as manager, task_managers("a", "b") as managers:
        survivor, victim = managers
        for each in managers:
            each.beat(manager.lead())
        wait_until(lambda: is_spread(engine, managers), 10, "an even spread")
        victim.stop()
        wait_until(lambda: is_spread(engine, [survivor]), 10, "the fail-over")
        too_late = victim.heartbeat(manager)
        assert too_late is not None
        assert (too_late.known, too_late.shards) == (False, {})
        with task_managers("b", incarnation="2") as [later]:
            answer = later.heartbeat(manager)
            assert answer is not None
            assert (answer.known, answer.shards) == (True, {})
            later.beat(manager)
            wait_until(lambda: is_spread(engine, [survivor, later]), 10, "an even spread again")


def test_a_new_leader_waits_a_whole_interval(engine, database_url):
    """1. A container owns all; its leader goes. 2. It dies, too. 3. The next leader only then begins to count."""
    with task_managers("a", "b") as [silent, other]:
        with shard_manager(database_url) as first:
            silent.beat(first.lead())
            wait_until(lambda: is_spread(engine, [silent]), 10, "all shards")
        silent.stop()
        interval_seconds = 3.0
        with shard_manager(database_url, fail_over_seconds=interval_seconds) as second:
            other.beat(second.lead())
            listening_since = _monotonic(engine)
            wait_until(lambda: is_spread(engine, [other]), 10, "the fail-over")
            assert _monotonic(engine) - listening_since > interval_seconds - 0.5


def _monotonic(engine: Engine) -> float:
    with transaction(engine) as connection:
        return float(connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())


def test_a_standby_refuses_and_names_the_leader(engine, database_url):
    with shard_manager(database_url) as leader, task_managers("a") as [container]:
        leader.lead()
        with shard_manager(database_url) as standby:
            assert container.heartbeat(standby) is None
            refusal = container.refusal
            assert refusal is not None
            assert refusal.status_code == 503
            assert refusal.json()["leader"] == leader.url
            assert httpx.get(f"{standby.url}/readyz").json()["role"] == "standby"


def test_a_standby_takes_over_when_the_leader_goes(engine, database_url):
    """1. A container owns all under one leader. 2. The leader goes. 3. The standby answers the same from the store."""
    with task_managers("a") as [container]:
        with shard_manager(database_url) as leader:
            container.beat(leader.lead())
            wait_until(lambda: is_spread(engine, [container]), 10, "all shards")
            held = dict(container.held)
        with shard_manager(database_url) as standby:
            answer = container.heartbeat(standby.lead())
            assert answer is not None
            assert answer.known
            assert answer.shards == held


def test_an_old_leader_writes_nothing(engine, database_url):
    """1. A container owns all. 2. Another process takes the lease, and this leader does not know yet.
    3. Known containers are answered; nobody is registered or failed over."""
    with shard_manager(database_url, shard_manager_lease_seconds=60.0) as manager, task_managers("a", "b") as managers:
        first, second = managers
        first.beat(manager.lead())
        wait_until(lambda: is_spread(engine, [first]), 10, "all shards")
        with transaction(engine) as connection:
            connection.execute(text("UPDATE leases SET holder = 'other', epoch = epoch + 1"))
        assert first.heartbeat(manager) is not None
        assert second.heartbeat(manager) is None
        assert second.refusal is not None
        assert second.refusal.json()["title"] == "NotLeader"
        first.stop()
        wait_until(lambda: "a" in manager.view.failing_over, 10, "the old leader to try a fail-over")
        with transaction(engine) as connection:
            assert stored_members.read_members(connection)["a"].live
        assert counts(engine) == {"a": SHARDS}


def test_a_drop_whose_answer_was_lost_heals(engine, database_url):
    """1. A container drops a shard that is still its own, as after a DROP of a leader that died. 2. It gets it anew."""
    with shard_manager(database_url) as manager, task_managers("a") as [container]:
        container.beat(manager.lead())
        wait_until(lambda: is_spread(engine, [container]), 10, "all shards")
        epoch = container.held.pop(5)
        container.dropped[5] = epoch
        assert wait_until(
            lambda: container.held.get(5, 0) > epoch and is_spread(engine, [container]), 10, "a new epoch"
        )


def test_a_lost_add_heals_by_heartbeat(engine, database_url):
    """Orders never arrive: the heartbeats' answers alone bring shards to their owners."""
    with shard_manager(database_url) as manager, task_managers("a", "b", answers_orders=False) as managers:
        for each in managers:
            each.beat(manager.lead())
        wait_until(lambda: is_spread(engine, managers), 10, "an even spread without orders")
        assert all(each.orders == [] for each in managers)


def test_a_drop_that_never_arrives_heals_by_heartbeat(engine, database_url):
    """1. One container owns all; no order reaches it. 2. Another joins. 3. Answers leave out what shall move."""
    with shard_manager(database_url) as manager, task_managers("a", "b", answers_orders=False) as managers:
        first, second = managers
        first.beat(manager.lead())
        wait_until(lambda: is_spread(engine, [first]), 10, "all shards")
        second.beat(manager)
        assert wait_until(lambda: is_spread(engine, managers), 15, "an even spread without orders")


def test_a_source_that_does_not_answer_keeps_its_shards(engine, database_url):
    """No answer is no drop: while the source is alive and says nothing, the store names it as owner."""
    with shard_manager(database_url) as manager, task_managers("a", "b", answers_orders=False) as managers:
        deaf, second = managers
        deaf.beat(manager.lead())
        wait_until(lambda: is_spread(engine, [deaf]), 10, "all shards")
        held = dict(deaf.held)
        deaf._take_in = lambda _: None  # type: ignore[method-assign]  # heartbeats go on, answers are not heeded
        second.beat(manager)
        wait_until(lambda: _rounds_pass(manager, 20), 20, "twenty rounds")
        with transaction(engine) as connection:
            assert read_assignment(connection, "a") == held


def _rounds_pass(manager, rounds: int) -> bool:
    wanted = manager.process.loop.rounds + rounds
    wait_until(lambda: manager.process.loop.rounds >= wanted, 20, "rounds")
    return True


def test_a_container_that_renews_its_own_lease_is_not_failed_over(engine, database_url):
    """1. A container cannot reach the Shard Manager, but the store. 2. It keeps its shards beyond the interval.
    3. It stops renewing, and is failed over."""
    with shard_manager(database_url) as manager, task_managers("a", "b") as [cut_off, other]:
        cut_off.beat(manager.lead())
        wait_until(lambda: is_spread(engine, [cut_off]), 10, "all shards")
        cut_off.stop()

        def renew_beyond_the_interval() -> bool:
            with transaction(engine) as connection:
                shards.renew_own_lease(connection, "a", "1")
            return _monotonic(engine) - started > 3.0

        started = _monotonic(engine)
        wait_until(renew_beyond_the_interval, 10, "more than the interval")
        assert counts(engine) == {"a": SHARDS}
        other.beat(manager)
        wait_until(lambda: is_spread(engine, [other]), 10, "the fail-over")
        with pytest.raises(LeaseLost), transaction(engine) as connection:
            shards.renew_own_lease(connection, "a", "1")


def test_heartbeats_are_answered_while_the_store_is_away(own_postgres):
    """1. The store goes. 2. Heartbeats are answered as long as the leader's lease is good. 3. Then they are refused.
    4. The store is back: heartbeats are answered, and nobody was called lost for it."""
    url = own_postgres.url
    periods = {"shard_manager_lease_seconds": 3.0, "fail_over_seconds": 4.0}
    with shard_manager(url, **periods) as manager, task_managers("a") as [container]:
        wait_until(lambda: container.heartbeat(manager.lead()), 10, "an answer")
        wait_until(lambda: container.heartbeat(manager) and container.held, 10, "shards")
        held = dict(container.held)
        failures = manager.process.loop.failures
        own_postgres.stop()
        wait_until(lambda: manager.process.loop.failures > failures, 10, "a round that fails")
        assert container.heartbeat(manager) is not None
        wait_until(lambda: container.heartbeat(manager) is None, 10, "the leader's lease to end")
        assert container.refusal is not None
        assert container.refusal.status_code == 503
        own_postgres.start()
        wait_until(lambda: container.heartbeat(manager), 10, "the leader to be back")
        assert container.held == held
