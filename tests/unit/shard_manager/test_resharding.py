"""Bringing together the shards that become one, and when the number of shards may change."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.tasks.ownership import Owner
from services.shard_manager.moves import Freed, Planned
from services.shard_manager.resharding import gather, is_due

LIVE = ("a", "b", "c")


def owners(*names: str | None) -> dict[int, Owner]:
    return {shard: Owner(name, 7) for shard, name in enumerate(names)}


def test_what_nobody_runs_goes_where_the_other_parts_are_or_to_the_container_with_the_fewest_shards() -> None:
    present = owners("a", "a", "a", "b", "lost", None, "a", "b", None, "a", "b", None)
    found = list(gather(present, 6, LIVE, LIVE, {}, {3}, move_limit=0))
    assert found == [Freed(3, 7, "b"), Freed(4, 7, "b"), Freed(5, 7, "c"), Freed(8, 7, "a"), Freed(11, 7, "c")]


def test_a_container_that_is_emptied_gets_none_and_gives_its_own_away_by_moves() -> None:
    present = owners("a", "b", "a", "a")
    assert list(gather(present, 2, LIVE, ("b", "c"), {}, (), move_limit=9)) == [
        Planned(0, 7, "a", "c"),
        Planned(2, 7, "a", "c"),
        Planned(3, 7, "a", "b"),
    ]


def test_for_a_divisor_parts_go_where_most_of_them_are() -> None:
    present = owners("a", "b", "b", "c", "a", "c")
    assert list(gather(present, 2, LIVE, LIVE, {}, (), move_limit=32)) == [
        Planned(1, 7, "b", "c"),
        Planned(2, 7, "b", "a"),
    ]
    assert len(list(gather(present, 2, LIVE, LIVE, {}, (), move_limit=1))) == 1
    assert list(gather(present, 2, LIVE, LIVE, {1: "c", 2: "a"}, (), move_limit=32)) == []
    assert list(gather(present, 2, LIVE, (), {}, (), move_limit=32)) == []


def test_the_number_may_change_once_parts_are_together_and_held() -> None:
    together, apart = owners("a", "b", "a", "b"), owners("a", "b", "b", "a")
    assert is_due(together, 2, ())
    assert not is_due(together, 2, {0})
    assert not is_due(apart, 2, ())
    assert is_due(apart, 8, ())
    assert is_due(owners(None, None), 1, ())


@given(st.lists(st.sampled_from((*LIVE, "lost", None)), min_size=12, max_size=12), st.sampled_from((1, 2, 3, 4, 6, 24)))
def test_when_its_moves_are_done_the_number_may_change(names: list[str | None], wanted: int) -> None:
    present = owners(*names)
    for event in list(gather(present, wanted, LIVE, LIVE, {}, (), move_limit=99)):
        assert present[event.shard].epoch == event.epoch
        present[event.shard] = Owner(event.destination, 8)
    assert is_due(present, wanted, ())
    assert list(gather(present, wanted, LIVE, LIVE, {}, (), move_limit=99)) == []
