"""Bringing together the shards that become one, and when the number of shards may change."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.tasks.ownership import CORDONED, DRAINING, Owner
from penstock.tasks.shards import Sharding
from services.shard_manager.moves.planner import plan, present_of
from services.shard_manager.moves.resharding import is_due, together
from services.shard_manager.placement.cell import Rules
from services.shard_manager.placement.needs import Needs, needs_of
from services.shard_manager.placement.target import target_of
from tests.support.shard_manager.facts import job, jobs_in, member, members, reported

LIVE = ("a", "b", "c")


def owners(*names: str | None) -> dict[int, Owner]:
    return {shard: Owner(name, 7) for shard, name in enumerate(names)}


def test_what_become_one_are_where_most_of_them_are_on_an_open_container() -> None:
    """0: two of three on a; 1: most on c, which takes nothing; 2: one part alone; 3: nowhere."""
    present = {0: "a", 4: "b", 8: "a", 1: "c", 5: "c", 9: "b", 6: "b"}
    assert together(present, 12, 4, ("a", "b")) == {0: "a", 1: "b", 2: "b"}


def test_what_is_together_on_a_container_that_takes_nothing_is_there_and_what_is_not_is_nowhere() -> None:
    assert together({0: "c", 2: "c", 1: "c", 3: "d"}, 4, 2, ("a",)) == {0: "c"}


def test_parts_are_brought_to_open_containers_with_room_by_what_they_use() -> None:
    """Four shards become two, for both of which a has no room: one goes to b, with both of its parts. c and d take
    nothing."""
    hosts = members("a", "b") | {"c": member("c", availability=CORDONED), "d": member("d", availability=DRAINING)}
    needs = _needs({0: 2.0, 1: 2.0}, 2)
    present = {0: "a", 2: "a", 1: "a", 3: "c"}
    home = together(present, 4, 2, ("a", "b"))
    assert home == {0: "a", 1: "a"}
    target = target_of(hosts, needs, home, Rules(), 0.0)
    assert sorted(target.where.values()) == ["a", "b"]
    moves = plan({shard: Owner(name, 1) for shard, name in present.items()}, target, hosts, (), (), move_limit=9)
    assert sorted(move.shard for move in moves) in ([0, 2, 3], [1, 3])


def test_the_number_may_change_once_parts_are_together_and_held() -> None:
    together_, apart = owners("a", "b", "a", "b"), owners("a", "b", "b", "a")
    assert is_due(together_, 2, ())
    assert not is_due(together_, 2, {0})
    assert not is_due(apart, 2, ())
    assert is_due(apart, 8, ())
    assert is_due(owners(None, None), 1, ())


@settings(deadline=None)
@given(
    st.lists(st.sampled_from((*LIVE, "lost", None)), min_size=12, max_size=12),
    st.sampled_from((1, 2, 3, 4, 6)),
    st.sets(st.sampled_from(LIVE), max_size=2),
)
def test_when_its_moves_are_done_the_number_may_change(
    names: list[str | None], wanted: int, cordoned: set[str]
) -> None:
    """And nothing came to a container that is cordoned."""
    present = owners(*names)
    hosts = {name: member(name, availability=CORDONED) if name in cordoned else member(name) for name in LIVE}
    home = together(present_of(present, LIVE, {}), 12, wanted, set(LIVE) - cordoned)
    target = target_of(hosts, _needs({}, wanted), home, Rules(), 0.0)
    for event in plan(present, target, LIVE, (), (), move_limit=99):
        assert event.destination not in cordoned
        assert present[event.shard].epoch == event.epoch
        present[event.shard] = Owner(event.destination, 8)
    assert is_due(present, wanted, ())
    assert plan(present, target, LIVE, (), (), move_limit=99) == []


def _needs(cores: dict[int, float], wanted: int) -> Needs:
    """A job with one task in each of these numbers, that uses so much."""
    names = jobs_in(dict.fromkeys(cores, 1), wanted)
    of_number = {names[number][0]: used for number, used in cores.items()}
    return needs_of(
        map(job, of_number), [reported(name, 0, used) for name, used in of_number.items()], Sharding(wanted)
    )
