"""The Shard Manager on a real store and real HTTP, with small Task Managers and short periods: stories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from penstock.control.errors import LeaseLost
from penstock.control.process import wait_until
from penstock.local.postgres import EmbeddedPostgres
from penstock.store import shards
from penstock.store.engine import transaction
from penstock.store.migrate import upgrade
from tests.support import calls, identity
from tests.support.shard_manager.cell import ShardCell, shard_cell
from tests.support.shard_manager.manager import shard_manager
from tests.support.shard_manager.small_task_manager import SmallTaskManager
from tests.support.store.database import read_assignment

SHARDS = 12


@pytest.fixture
def own_postgres(servers_dir: Path) -> Iterator[EmbeddedPostgres]:
    """A migrated server of the test's own, that it may stop."""
    with EmbeddedPostgres(servers_dir / "own", durable=False) as server:
        upgrade(server.url)
        yield server


@pytest.fixture
def cell(engine: Engine, database_url: str) -> Iterator[ShardCell]:
    with shard_cell(engine, database_url, shards=SHARDS) as cell:
        yield cell


def assigned(cell: ShardCell, name: str) -> dict[int, int]:
    """The shards that the store gives a container, with their epochs."""
    with transaction(cell.engine) as connection:
        return read_assignment(connection, name)


def test_containers_that_join_get_their_share(cell):
    """1. Three containers join. 2. Each owns a third. 3. A fourth joins: shards move to it by DROP and ADD."""
    cell.start(moves_in_flight=2)
    first = cell.join("a", "b", "c")
    cell.spread("an even spread over three")
    before = cell.owners()
    cell.join("d")
    cell.spread("an even spread over four")
    moved = {shard for shard, container in cell.owners().items() if container != before[shard]}
    assert len(moved) == SHARDS // 4
    # An order that is not answered soon is given again.
    dropped = {shard for each in first for verb, order in each.orders if verb == "drop" for shard in order.shards}
    assert dropped == moved


def test_a_lost_container_is_failed_over(cell):
    """1. Two containers share. 2. One dies without a word. 3. After the interval the other owns all, by new epochs."""
    cell.start()
    survivor, _ = cell.join("a", "b")
    cell.spread()
    victim = cell.kill("b")
    cell.spread("the fail-over")
    assert cell.members()["b"].live is False
    assert min(survivor.held[shard] for shard in victim.held) > max(victim.held.values())


def test_a_container_that_comes_back_in_time_keeps_its_shards(cell):
    """1. A container owns all. 2. It restarts within the interval. 3. It keeps its shards, under new epochs."""
    manager = cell.start()
    cell.join("a")
    cell.spread("all shards")
    former = cell.kill("a")
    answer = cell.add(SmallTaskManager("a", "2")).heartbeat(manager)
    assert answer is not None
    assert answer.known
    assert answer.shards.keys() == former.held.keys()
    assert min(answer.shards.values()) > max(former.held.values())
    refused = former.heartbeat(manager)
    assert refused is not None
    assert not refused.known


@pytest.mark.long
def test_a_container_that_comes_back_late_is_new_and_empty(cell):
    """1. One of two dies and is failed over. 2. Its old life is told so. 3. A new life joins, empty."""
    manager = cell.start()
    cell.join("a", "b")
    cell.spread()
    victim = cell.kill("b")
    cell.spread("the fail-over")
    too_late = victim.heartbeat(manager)
    assert too_late is not None
    assert (too_late.known, too_late.shards) == (False, {})
    later = cell.add(SmallTaskManager("b", "2"))
    answer = later.heartbeat(manager)
    assert answer is not None
    assert (answer.known, answer.shards) == (True, {})
    later.beat(manager)
    cell.spread("an even spread again")


@pytest.mark.long
def test_a_new_leader_waits_a_whole_interval(cell):
    """1. A container owns all; its leader goes. 2. It dies, too. 3. The next leader only then begins to count."""
    with cell.leading():
        cell.join("silent")
        cell.spread("all shards")
    cell.kill("silent")
    interval_seconds = 3.0
    cell.start(fail_over_seconds=interval_seconds)
    cell.join("other")
    listening_since = _seconds(cell)
    cell.spread("the fail-over")
    assert _seconds(cell) - listening_since > interval_seconds - 0.5


def _seconds(cell: ShardCell) -> float:
    """The store's clock."""
    with transaction(cell.engine) as connection:
        return float(connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())


def test_a_standby_refuses_and_names_the_leader(cell, database_url):
    leader = cell.start()
    container = cell.add(SmallTaskManager("a"))
    with shard_manager(database_url) as standby:
        assert container.heartbeat(standby) is None
        refusal = container.refusal
        assert refusal is not None
        assert refusal.status_code == 503
        assert refusal.json()["leader"] == leader.url
        assert calls.get(f"{standby.url}/readyz", auth=identity.auth(identity.OBSERVER)).json()["role"] == "standby"


def test_a_standby_takes_over_when_the_leader_goes(cell):
    """1. A container owns all under one leader. 2. The leader goes. 3. The standby answers the same from the store."""
    with cell.leading():
        (container,) = cell.join("a")
        cell.spread("all shards")
        held = dict(container.held)
    answer = container.heartbeat(cell.start())
    assert answer is not None
    assert answer.known
    assert answer.shards == held


def test_an_old_leader_writes_nothing(cell):
    """1. A container owns all. 2. Another process takes the lease, and this leader does not know yet.
    3. Known containers are answered; nobody is registered or failed over."""
    manager = cell.start(shard_manager_lease_seconds=60.0)
    (first,) = cell.join("a")
    cell.spread("all shards")
    with transaction(cell.engine) as connection:
        connection.execute(text("UPDATE leases SET holder = 'other', epoch = epoch + 1"))
    second = cell.add(SmallTaskManager("b"))
    assert first.heartbeat(manager) is not None
    assert second.heartbeat(manager) is None
    assert second.refusal is not None
    assert second.refusal.json()["title"] == "NotLeader"
    cell.kill("a")
    wait_until(lambda: "a" in manager.view.failing_over, 10, "the old leader to try a fail-over")
    assert cell.members()["a"].live
    assert cell.counts() == {"a": SHARDS}


def test_a_drop_whose_answer_was_lost_heals(cell):
    """1. A container drops a shard that is still its own, as after a DROP of a leader that died. 2. It gets it anew."""
    cell.start()
    (container,) = cell.join("a")
    cell.spread("all shards")
    epoch = container.held.pop(5)
    container.dropped[5] = epoch
    assert wait_until(lambda: container.held.get(5, 0) > epoch and cell.is_placed(), 10, "a new epoch")


def test_a_lost_add_heals_by_heartbeat(cell):
    """Orders never arrive: the heartbeats' answers alone bring shards to their owners."""
    cell.start()
    deaf = cell.join("a", "b", answers_orders=False)
    cell.spread("an even spread without orders")
    assert all(each.orders == [] for each in deaf)


def test_a_drop_that_never_arrives_heals_by_heartbeat(cell):
    """1. One container owns all; no order reaches it. 2. Another joins. 3. Answers leave out what shall move."""
    cell.start()
    cell.join("a", answers_orders=False)
    cell.spread("all shards")
    cell.join("b", answers_orders=False)
    cell.spread("an even spread without orders")
    assert cell.counts() == {"a": SHARDS // 2, "b": SHARDS // 2}


def test_a_source_that_does_not_answer_keeps_its_shards(cell):
    """No answer is no drop: while the source is alive and says nothing, the store names it as owner."""
    cell.start()
    (deaf,) = cell.join("a", answers_orders=False)
    cell.spread("all shards")
    held = dict(deaf.held)
    deaf._take_in = lambda _: None  # type: ignore[method-assign]  # heartbeats go on, answers are not heeded
    cell.join("b", answers_orders=False)
    cell.rounds_pass(20)
    assert assigned(cell, "a") == held


def test_a_container_that_renews_its_own_lease_is_not_failed_over(cell):
    """1. A container cannot reach the Shard Manager, but the store. 2. It keeps its shards beyond the interval.
    3. It stops renewing, and is failed over."""
    cell.start()
    cell.join("a")
    cell.spread("all shards")
    cell.kill("a")

    def renew_beyond_the_interval() -> bool:
        with transaction(cell.engine) as connection:
            shards.renew_own_lease(connection, "a", "1")
        return _seconds(cell) - started > 3.0

    started = _seconds(cell)
    wait_until(renew_beyond_the_interval, 10, "more than the interval")
    assert cell.counts() == {"a": SHARDS}
    cell.join("b")
    cell.spread("the fail-over")
    with pytest.raises(LeaseLost), transaction(cell.engine) as connection:
        shards.renew_own_lease(connection, "a", "1")


@pytest.mark.long
def test_heartbeats_are_answered_while_the_store_is_away(own_postgres):
    """1. The store goes. 2. Heartbeats are answered as long as the leader's lease is good. 3. Then they are refused.
    4. The store is back: heartbeats are answered, and nobody was called lost for it."""
    with ExitStack() as stack:
        periods = {"shard_manager_lease_seconds": 3.0, "fail_over_seconds": 4.0}
        manager = stack.enter_context(shard_manager(own_postgres.url, **periods)).lead()
        container = SmallTaskManager("a")
        stack.callback(container.stop)
        wait_until(lambda: container.heartbeat(manager), 10, "an answer")
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
