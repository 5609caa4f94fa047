"""Which shards are given out and moved towards a target."""

from __future__ import annotations

import pytest

from penstock.tasks.ownership import Owner
from penstock.tasks.shards import Sharding
from services.shard_manager.moves.moves import Planned
from services.shard_manager.moves.planner import destination_of, plan, present_of
from services.shard_manager.placement.target import Target, Violations


def target(where: dict[int, str], order: tuple[int, ...] = ()) -> Target:
    return Target(where, order, Sharding(len(where)), {}, 0.0, True, Violations(), {}, {}, 0, ())


def test_shards_without_owner_are_given_out_whatever_the_limit():
    owners = {shard: Owner(None, 1) for shard in range(3)}
    events = plan(owners, target({0: "a", 1: "b", 2: "a"}), {"a", "b"}, (), (), move_limit=-3)
    assert events == [Planned(0, 1, None, "a"), Planned(1, 1, None, "b"), Planned(2, 1, None, "a")]


def test_shards_move_in_order_within_the_limit_and_others_after_them():
    owners = {shard: Owner("a", 1) for shard in range(4)}
    wanted = target(dict.fromkeys(range(4), "b"), order=(2, 1))
    assert [event.shard for event in plan(owners, wanted, {"a", "b"}, (), (), move_limit=3)] == [2, 1, 0]
    assert plan(owners, wanted, {"a", "b"}, (2, 1), (), move_limit=1) == [Planned(0, 1, "a", "b")]


def test_a_shard_that_its_owner_dropped_is_given_out_again_without_a_drop():
    owners = {0: Owner("a", 1), 1: Owner("b", 1)}
    assert plan(owners, target({0: "a", 1: "b"}), {"a", "b"}, (), {1}, move_limit=9) == [Planned(1, 1, None, "b")]


def test_a_shard_of_a_container_that_is_no_more_is_given_out():
    owners = {0: Owner("a", 1), 1: Owner("gone", 1)}
    assert plan(owners, target({0: "a", 1: "a"}), {"a"}, (), (), move_limit=0) == [Planned(1, 1, None, "a")]


def test_shards_that_become_one_go_where_that_is_to_be():
    """Numbers 1 and 0 of two; four shards now."""
    owners = {0: Owner("a", 1), 1: Owner("a", 2), 2: Owner("b", 3), 3: Owner("b", 4)}
    wanted = target({0: "a", 1: "b"}, order=(1,))
    assert plan(owners, wanted, {"a", "b"}, (), (), move_limit=9) == [Planned(1, 2, "a", "b"), Planned(2, 3, "b", "a")]
    assert plan(owners, wanted, {"a", "b"}, (1,), (), move_limit=9) == [Planned(2, 3, "b", "a")]


@pytest.mark.parametrize("wanted", [{0: "b", 1: "a"}, {0: "gone", 1: "gone"}, {}])
def test_a_shard_that_is_where_it_should_be_or_has_no_place_stays(wanted: dict[int, str]):
    owners = {0: Owner("b", 1), 1: Owner("a", 2)}
    assert plan(owners, target(wanted), {"a", "b"}, (), (), move_limit=9) == []


def test_shards_in_flight_count_as_arrived_and_lost_containers_for_nothing():
    owners = {0: Owner("a", 1), 1: Owner("a", 1), 2: Owner("gone", 1), 3: Owner(None, 1), 4: Owner("gone", 1)}
    assert present_of(owners, {"a", "b"}, {1: "b", 2: "gone", 4: "b"}) == {0: "a", 1: "b", 4: "b"}


def test_a_shard_whose_destination_was_lost_goes_by_the_target():
    assert destination_of("a", "b", {"a", "b"}) == "a"
    assert destination_of("gone", "b", {"a", "b"}) == "b"
    assert destination_of(None, "b", {"a", "b"}) == "b"
    assert destination_of("gone", "gone", {"a", "b"}) is None
    assert destination_of("gone", None, {"a", "b"}) is None
