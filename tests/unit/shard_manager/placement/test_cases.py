"""Small cells, one rule each."""

from __future__ import annotations

import pytest

from penstock.control.errors import UserError
from penstock.tasks.taking import Constraint
from services.shard_manager.placement.place import place
from services.shard_manager.placement.problem import State
from services.shard_manager.placement.reasons import Cause
from tests.support.shard_manager.placement_problems import Container, Shard, problem_of


def _hosts(count: int, cpu: float = 10.0, **fields: object) -> list[Container]:
    return [Container(f"c{number}", {"cpu": cpu}, **fields) for number in range(count)]  # type: ignore[arg-type]


def _shards(*loads: float, first: int = 0, **fields: object) -> list[Shard]:
    return [Shard(first + place, {"cpu": load}, **fields) for place, load in enumerate(loads)]  # type: ignore[arg-type]


DIMENSIONS = ("cpu", "memory", "disk", "network")


def _problem(hosts, rows, **rules):
    return problem_of(hosts, rows, **{"dimensions": DIMENSIONS, **rules})


def _place(hosts, rows, previous=None, **rules):
    return place(_problem(hosts, rows, **rules), previous or {})


def test_no_containers_leaves_every_shard_named():
    answer = _place([], _shards(1, 2))
    assert answer.assignment == {}
    assert [(lack.shard, lack.cause, lack.reason) for lack in answer.unplaceable] == [
        (0, Cause.NO_CONTAINER, "no container"),
        (1, Cause.NO_CONTAINER, "no container"),
    ]


def test_one_container_takes_all_and_no_shards_are_no_trouble():
    assert _place(_hosts(1), _shards(1, 0, 2)).assignment == {0: "c0", 1: "c0", 2: "c0"}
    assert _place(_hosts(1), []).assignment == {}


@pytest.mark.parametrize(
    ("shard", "cause", "reason"),
    [
        ({"constraint": Constraint(frozenset({"x"}))}, Cause.NO_CONTAINER, "no container of region x"),
        (
            {"constraint": Constraint(frozenset({"a", "b"}), frozenset({"gpu"}))},
            Cause.NO_CONTAINER,
            "no container of region a or b with label gpu",
        ),
        (
            {"constraint": Constraint(frozenset({"b"}))},
            Cause.NOT_OPEN,
            "every container of region b is cordoned or drains",
        ),
        ({"load": {"cpu": 9.5, "memory": 1}}, Cause.TOO_LARGE, "too large: cpu 9.5 of at most 9"),
        ({"load": {"cpu": 4}}, Cause.CAPACITY_SHORT, "capacity short: cpu"),
    ],
)
def test_the_reason_is_said(shard, cause, reason):
    hosts = [
        Container("c0", {"cpu": 10, "memory": 5}, region="a", headroom=0.1),
        Container("c1", {"cpu": 100}, region="b", state=State.CORDONED),
    ]
    fields = {"load": {"cpu": 1}} | shard
    placed = Shard(1, {"cpu": 6})
    answer = _place(hosts, [placed, Shard(2, **fields)], {1: "c0"})
    assert [lack[:3] for lack in answer.unplaceable] == [(2, cause, reason)]


def test_a_fifth_dimension_is_a_matter_of_data():
    hosts = [Container(name, {"gpu": 2.0}) for name in "ab"]
    rows = [Shard(number, {"gpu": 1.0}) for number in range(4)]
    answer = _place(hosts, rows, dimensions=(*DIMENSIONS, "gpu"))
    assert sorted(answer.assignment.values()) == ["a", "a", "b", "b"]


def test_a_large_container_gets_more_than_a_small_one():
    hosts = [Container("large", {"cpu": 30.0}), Container("small", {"cpu": 10.0})]
    answer = _place(hosts, _shards(*[1.0] * 20))
    assert list(answer.assignment.values()).count("large") == 15


def test_a_cordoned_container_keeps_what_it_has_and_gets_no_more():
    hosts = [*_hosts(1), Container("z", {"cpu": 10.0}, state=State.CORDONED)]
    answer = _place(hosts, _shards(1, 1, 1, 1), {0: "z", 1: "c0"})
    assert answer.assignment == {0: "z", 1: "c0", 2: "c0", 3: "c0"}


def test_a_draining_container_is_emptied_and_what_has_no_other_place_runs_on():
    hosts = [*_hosts(1, cpu=2.0), Container("z", {"cpu": 10.0}, state=State.DRAINING)]
    answer = _place(hosts, _shards(1, 1, 1), dict.fromkeys(range(3), "z"))
    assert sorted(answer.assignment.values()) == ["c0", "c0", "z"]
    assert [(lack.cause, lack.stays_on) for lack in answer.unplaceable] == [(Cause.CAPACITY_SHORT, "z")]


def test_a_draining_container_over_its_capacity_keeps_what_it_can():
    hosts = [Container("z", {"cpu": 2.0}, state=State.DRAINING)]
    answer = _place(hosts, _shards(1, 1, 1), dict.fromkeys(range(3), "z"))
    assert sorted(answer.assignment.values()) == ["z", "z"]
    assert [lack.stays_on for lack in answer.unplaceable].count("z") == 2


def test_an_overloaded_container_gives_away_only_what_it_must():
    answer = _place(_hosts(2), _shards(6, 4, 2, 6), {0: "c0", 1: "c0", 2: "c0", 3: "c1"}, band=0.9)
    assert answer.assignment == {0: "c0", 1: "c0", 2: "c1", 3: "c1"}


def test_important_shards_come_first_when_capacity_is_short():
    """Also before those that run: two of low priority give way to one that is large and important."""
    low, high = _shards(4, 4, 2), _shards(6, 10, first=10, priority=5)
    answer = _place(_hosts(2), [*low, *high], {0: "c0", 1: "c0", 2: "c1"})
    assert {10, 11} <= answer.assignment.keys()
    assert {lack.shard for lack in answer.unplaceable} == {0, 1, 2} - answer.assignment.keys()
    assert len(answer.unplaceable) == 2


def test_others_move_on_to_make_room():
    """5 + 5 are free on two containers, and 8 are wanted on one."""
    answer = _place(_hosts(2), [*_shards(3, 2, 2, 3), Shard(9, {"cpu": 8})], {0: "c0", 1: "c0", 2: "c1", 3: "c1"})
    assert answer.unplaceable == ()
    assert 9 in answer.assignment


def test_tasks_of_a_job_are_spread():
    rows = [*_shards(1, 1, 1, 1, job="j"), *_shards(1, 1, 1, 1, first=10, job="k")]
    answer = _place(_hosts(4), rows)
    for first in (0, 10):
        assert len({answer.assignment[number] for number in range(first, first + 4)}) == 4


def test_of_shards_that_would_do_the_cheaper_one_moves():
    rows = [*_shards(4, state_bytes=1e11), *_shards(4, 6, 4, first=1)]
    answer = _place(_hosts(2, cpu=20), rows, {0: "c0", 1: "c0", 2: "c0", 3: "c1"}, band=0.2)
    assert answer.moved.tolist() == [1]


@pytest.mark.parametrize("idle", [0, 40])
def test_where_no_exchange_of_two_helps_a_small_tier_is_searched_for_the_way(idle):
    loads = [(0.5, 0), (0.5, 0), (0.5, 0), (1.0, 2), (1.2, 2), (1.2, 0)]
    rows = [Shard(number, {"cpu": cpu, "memory": memory}) for number, (cpu, memory) in enumerate(loads)]
    rows += [Shard(number, {}) for number in range(6, 6 + idle)]
    answer = _place([Container(name, {"cpu": 12, "memory": 12}) for name in "ab"], rows)
    assert answer.worst_band <= 0.1


def test_a_new_container_is_filled_by_the_budget():
    rows, hosts = _shards(*[1.0] * 30), _hosts(3, cpu=20.0)
    previous = {number: f"c{number % 2}" for number in range(30)}
    counts = []
    for _ in range(6):
        answer = _place(hosts, rows, previous, move_budget=3)
        previous = answer.assignment
        counts.append(list(previous.values()).count("c2"))
        assert len(answer.moved) <= 3
    assert counts == [3, 6, 9, 9, 9, 9]
    assert answer.converged


def test_what_is_stuck_on_a_draining_container_takes_nothing_of_the_budget():
    hosts = [*_hosts(2), Container("z", {"cpu": 20}, state=State.DRAINING)]
    rows = [*_shards(2, 2), *_shards(11, first=2)]
    answer = _place(hosts, rows, {0: "c0", 1: "c0", 2: "z"}, move_budget=1)
    assert answer.assignment[0] != answer.assignment[1]
    assert (answer.converged, len(answer.moved)) == (True, 1)


def test_what_has_to_move_is_named_first_and_then_what_is_worst():
    hosts = [*_hosts(4, cpu=20), Container("z", {"cpu": 20}, state=State.DRAINING)]
    rows = _shards(*[2] * 16, 1)
    previous = {n: "c0" if n < 6 else "c1" if n < 13 else "c2" if n < 16 else "z" for n in range(17)}
    answer = _place(hosts, rows, previous)
    assert answer.moved[0] == 16
    sources = [previous[number] for number in answer.moved[1:].tolist()]
    assert sources == sorted(sources, key=lambda name: ["c1", "c0", "c2"].index(name))
    assert set(sources) == {"c0", "c1"}


def test_homeless_shards_do_not_count_against_the_budget():
    answer = _place(_hosts(2), _shards(1, 1, 1, 1), {0: "gone", 1: "gone"}, move_budget=0)
    assert answer.converged
    assert sorted(answer.assignment.values()) == ["c0", "c0", "c1", "c1"]


@pytest.mark.parametrize(
    ("hosts", "rows", "rules", "field"),
    [
        ([Container("c", {"cpu": -1.0})], [], {}, "containers.capacity"),
        ([Container("c", {"cpu": 1.0}, headroom=1.0)], [], {}, "containers.headroom"),
        (_hosts(1) * 2, [], {}, "containers.names"),
        ([], [Shard(1, {"cpu": float("nan")})], {}, "shards.load"),
        ([], _shards(1) * 2, {}, "shards.ids"),
        ([], [], {"band": 0.0}, "band"),
        ([], [], {"move_budget": -1}, "move_budget"),
        ([], [], {"dimensions": ()}, "dimensions"),
    ],
)
def test_what_is_wrong_is_named(hosts, rows, rules, field):
    with pytest.raises(UserError) as refused:
        _problem(hosts, rows, **rules)
    assert refused.value.field == field
