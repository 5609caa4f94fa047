"""Which shards are given out and moved."""

from __future__ import annotations

from penstock.tasks.ownership import Owner
from services.shard_manager.moves import Freed, Planned
from services.shard_manager.planning import least_loaded, plan


def test_shards_without_owner_are_given_out_whatever_the_limit():
    owners = {shard: Owner(None, 1) for shard in range(4)}
    events = plan(owners, {"a", "b"}, {}, (), move_limit=0)
    assert events == [Freed(0, 1, "a"), Freed(1, 1, "b"), Freed(2, 1, "a"), Freed(3, 1, "b")]


def test_a_new_container_is_filled_within_the_limit():
    owners = {shard: Owner("a", 1) for shard in range(8)}
    events = plan(owners, {"a", "b"}, {}, (), move_limit=3)
    assert events == [Planned(4, 1, "a", "b"), Planned(5, 1, "a", "b"), Planned(6, 1, "a", "b")]


def test_shards_in_flight_count_as_arrived():
    """The rest of a plan goes on where it was; nothing is planned twice or turned round."""
    owners = {shard: Owner("a", 1) for shard in range(8)}
    events = plan(owners, {"a", "b"}, {4: "b", 5: "b", 6: "b"}, (), move_limit=9)
    assert events == [Planned(7, 1, "a", "b")]


def test_a_shard_that_its_owner_dropped_is_given_out_again_without_a_drop():
    owners = {0: Owner("a", 1), 1: Owner("b", 1)}
    assert plan(owners, {"a", "b"}, {}, {1}, move_limit=9) == [Freed(1, 1, "b")]


def test_a_shard_of_a_container_that_is_no_more_is_given_out():
    owners = {0: Owner("a", 1), 1: Owner("gone", 1)}
    assert plan(owners, {"a"}, {}, (), move_limit=0) == [Freed(1, 1, "a")]


def test_an_even_assignment_is_left_alone():
    owners = {0: Owner("b", 1), 1: Owner("a", 2), 2: Owner("a", 3)}
    assert plan(owners, {"a", "b"}, {}, (), move_limit=9) == []


def test_without_containers_nothing_is_planned():
    assert plan({0: Owner(None, 1)}, (), {}, (), move_limit=9) == []


def test_least_loaded():
    assert least_loaded({"a", "b", "c"}, {"a": 3, "b": 1, "c": 1}) == "b"
    assert least_loaded((), {}) is None
