"""Who owns what in the store: races of a container's own lease with its fail-over, restarts, epochs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import pytest
from sqlalchemy import Connection, Engine, text

from penstock.control.errors import LeaseLost
from penstock.control.process import wait_until
from penstock.store.engine import next_number, transaction
from penstock.store.running import RUNNING_COMMIT
from penstock.store.shards import adopt_own_lease, renew_own_lease
from penstock.tasks.ownership import Member, Membership, OwnedShards, Owner
from services.shard_manager.store.members import declare_lost, read_members, register
from services.shard_manager.store.owners import Change, ensure_shards, read_owners, record_owners
from tests.support.store.database import read_assignment, waits_for_a_lock

T = TypeVar("T")
INTERVAL_SECONDS = 60.0


@pytest.fixture
def engine(engine: Engine) -> Engine:
    """A store in which the container `a`, incarnation `1`, owns four shards."""
    with transaction(engine) as connection:
        register(connection, member("a", "1"), empty=True)
        ensure_shards(connection, 4)
        give(connection, "a")
    return engine


def member(name: str, incarnation: str) -> Member:
    return Member(name, incarnation, f"http://{name}", "local", 2.0, 2**31, 2**34)


def give(connection: Connection, container: str | None) -> dict[int, Owner]:
    owners = read_owners(connection)
    return record_owners(connection, {shard: Change(container, owner.epoch) for shard, owner in owners.items()})


def fail_over(connection: Connection) -> set[str]:
    gone = declare_lost(connection, {"a": "1"}, INTERVAL_SECONDS)
    if gone:
        give(connection, None)
    return gone


def test_a_renewal_that_commits_first_beats_the_fail_over(engine):
    """1. The container renews, not committed yet. 2. The fail-over waits for it. 3. Committed: nobody is lost."""
    with ThreadPoolExecutor(1) as pool:
        with transaction(engine) as connection:
            mine = renew_own_lease(connection, "a", "1")
            failing_over = pool.submit(in_a_transaction, engine, fail_over)
            wait_until(lambda: waits_for_a_lock(engine), 10, "the fail-over to wait")
        assert failing_over.result(timeout=10) == set()
    with transaction(engine) as connection:
        assert read_members(connection)["a"].live
        assert read_assignment(connection, "a") == mine.shards


def test_a_fail_over_that_commits_first_beats_the_renewal(engine):
    """1. The fail-over is not committed yet. 2. The renewal waits for it. 3. Committed: the lease is lost."""
    with ThreadPoolExecutor(1) as pool:
        with transaction(engine) as connection:
            assert fail_over(connection) == {"a"}
            renewing: Future[OwnedShards] = pool.submit(
                in_a_transaction, engine, lambda connection: renew_own_lease(connection, "a", "1")
            )
            wait_until(lambda: waits_for_a_lock(engine), 10, "the renewal to wait")
        with pytest.raises(LeaseLost):
            renewing.result(timeout=10)
    with transaction(engine) as connection:
        assert read_assignment(connection, "a") == {}


def in_a_transaction(engine: Engine, work: Callable[[Connection], T]) -> T:
    with transaction(engine) as connection:
        return work(connection)


def test_an_old_renewal_holds_nothing_off(engine):
    with transaction(engine) as connection:
        renew_own_lease(connection, "a", "1")
        connection.execute(text("UPDATE containers SET lease_renewed_at = clock_timestamp() - interval '61 seconds'"))
        assert fail_over(connection) == {"a"}


def test_only_the_present_life_renews(engine):
    with transaction(engine) as connection:
        assert renew_own_lease(connection, "a", "1").shards.keys() == {0, 1, 2, 3}
        for name, incarnation in (("a", "2"), ("stranger", "1")):
            with pytest.raises(LeaseLost):
                renew_own_lease(connection, name, incarnation)


def test_a_restarted_task_manager_adopts_its_lease_without_the_shard_manager(engine):
    """1. A new life takes the row over from its former one. 2. Same shards, new epochs. 3. The former life is out."""
    with transaction(engine) as connection:
        before = read_assignment(connection, "a")
        adopted = adopt_own_lease(connection, "a", "1", "2")
    assert adopted.shards.keys() == before.keys()
    assert min(adopted.shards.values()) > max(before.values())
    assert adopted.version == max(adopted.shards.values())
    with transaction(engine) as connection:
        assert renew_own_lease(connection, "a", "2") == adopted
        assert declare_lost(connection, {"a": "1"}, INTERVAL_SECONDS) == set()
        with pytest.raises(LeaseLost):
            adopt_own_lease(connection, "a", "1", "3")


def test_commits_wait_for_an_adoption_that_told_of_the_last_one(engine):
    """1. A life adopts, not committed yet, and hears of a commit. 2. The next commit waits, so who makes it sees it."""
    with ThreadPoolExecutor(1) as pool:
        with transaction(engine) as connection:
            adopted = adopt_own_lease(connection, "a", "1", "2")
            committing = pool.submit(in_a_transaction, engine, lambda other: next_number(other, RUNNING_COMMIT))
            wait_until(lambda: waits_for_a_lock(engine), 10, "the commit to wait")
        assert committing.result(timeout=10) == adopted.commit_number + 1


def test_a_restart_seen_by_the_shard_manager_renumbers_the_shards(engine):
    with transaction(engine) as connection:
        before = read_assignment(connection, "a")
        assert register(connection, member("a", "2"), empty=True) is Membership.RESTARTED
        after = read_assignment(connection, "a")
        assert after.keys() == before.keys()
        assert min(after.values()) > max(before.values())
        assert register(connection, member("a", "1"), empty=False) is Membership.REFUSED
        assert register(connection, member("a", "2"), empty=False) is Membership.UNCHANGED
        assert read_assignment(connection, "a") == after


def test_a_decision_on_an_old_view_changes_nothing(engine):
    """Each change names the epoch that it replaces; of two that replace the same one, one wins."""
    with transaction(engine) as connection:
        epoch = read_owners(connection)[0].epoch
        first = record_owners(connection, {0: Change("b", epoch), 1: Change("b", epoch)})
        assert first.keys() == {0, 1}
        assert record_owners(connection, {0: Change("c", epoch), 2: Change("c", epoch)}).keys() == {2}
        owners = read_owners(connection)
        assert [owners[shard].container for shard in range(4)] == ["b", "b", "c", "a"]


def test_reading_above_the_highest_known_epoch_gives_the_changes(engine):
    with transaction(engine) as connection:
        known = max(owner.epoch for owner in read_owners(connection).values())
        assert read_owners(connection, above=known) == {}
        changed = record_owners(connection, {3: Change("b", known)})
        assert read_owners(connection, above=known) == changed


def test_shards_are_made_once(engine):
    with transaction(engine) as connection:
        before = read_owners(connection)
        ensure_shards(connection, 4)
        assert read_owners(connection) == before
        ensure_shards(connection, 6)
        assert read_owners(connection)[5].container is None


def test_the_reports_of_a_lost_container_are_forgotten_and_no_others(engine):
    with transaction(engine) as connection:
        register(connection, member("b", "1"), empty=True)
        for container in ("a", "b"):
            report = {"container": container, "progress": None}
            connection.execute(text(_REPORTED), report)
        assert fail_over(connection) == {"a"}
        assert list(connection.execute(text("SELECT container FROM tasks")).scalars()) == ["b"]


_REPORTED = """
    INSERT INTO tasks (job, index, container, state, revision, generation, restarts, epoch, progress)
    VALUES ('job', 0, :container, 'running', 1, 1, 0, 1, :progress)
"""
