"""What has no place for want of capacity runs all the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings

from penstock.tasks.taking import Constraint
from services.shard_manager.placement.place import place
from services.shard_manager.placement.problem import State
from services.shard_manager.placement.reasons import Cause
from services.shard_manager.placement.shortage import Placed, place_all
from tests.support.shard_manager.placement_problems import Container, Shard, problem_of
from tests.support.shard_manager.placements import DIMENSIONS, containers, may_hold, previous, shards

HOSTS = [Container("a", {"cpu": 2.0}, "east"), Container("b", {"cpu": 2.0}, "west")]


def placed(hosts, rows, before=None) -> Placed:
    return place_all(problem_of(hosts, rows, dimensions=("cpu",)), before or {})


def test_what_is_too_large_for_any_container_runs_on_one_and_stays_there():
    answer = placed(HOSTS, [Shard(0, {"cpu": 3.0})])
    assert answer.placement.assignment.keys() == {0}
    assert [(lack.shard, lack.cause) for lack in answer.short] == [(0, Cause.TOO_LARGE)]
    for name in "ab":
        again = placed(HOSTS, [Shard(0, {"cpu": 3.0})], {0: name})
        assert again.placement.assignment == {0: name}


def test_what_is_too_large_stays_on_its_container_though_that_is_cordoned_and_no_other_may_take_it():
    """A test of the simulation found it without a container, though its tasks ran on (seed 6650)."""
    hosts = [Container("a", {"cpu": 2.0}, "east", state=State.CORDONED), Container("b", {"cpu": 2.0}, "west")]
    row = Shard(0, {"cpu": 3.0}, constraint=Constraint(frozenset(["east"])))
    answer = placed(hosts, [row], {0: "a"})
    assert answer.placement.assignment == {0: "a"}
    assert answer.placement.unplaceable == ()
    assert [lack.shard for lack in answer.short] == [0]
    assert placed(hosts, [row]).placement.assignment == {}


def test_an_excess_is_shared_out_evenly():
    answer = placed(HOSTS, [Shard(number, {"cpu": 0.5}) for number in range(16)])
    assert Counter(answer.placement.assignment.values()) == {"a": 8, "b": 8}
    assert answer.asked == {"cpu": 2.0}


def test_constraints_hold_all_the_same():
    east = Constraint(frozenset(["east"]))
    rows = [Shard(number, {"cpu": 1.5}, constraint=east) for number in range(3)]
    answer = placed(HOSTS, [*rows, Shard(3, {}, constraint=Constraint(frozenset(["north"])))])
    assert answer.placement.assignment == {0: "a", 1: "a", 2: "a"}
    assert [lack.cause for lack in answer.placement.unplaceable] == [Cause.NO_CONTAINER]


def test_a_draining_container_keeps_what_would_be_too_much_for_the_others():
    hosts = [*HOSTS, Container("c", {"cpu": 2.0}, state=State.DRAINING)]
    rows = [Shard(number, {"cpu": 0.99}) for number in range(4)] + [Shard(4, {"cpu": 0.04})]
    before = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c"}
    answer = placed(hosts, rows, before)
    assert answer.placement.assignment == before
    assert [(lack.shard, lack.stays_on) for lack in answer.short] == [(4, "c")]


def test_what_a_shard_avoids_makes_no_cell_too_small() -> None:
    """1. The shard could go to `b`, but what may be nowhere else fills that. 2. It stays, and all others do. 3. With
    room on `b` it goes."""
    rows = [Shard(0, {"cpu": 1.5}, Constraint(avoids=frozenset("a")))]
    west = Constraint(frozenset(["west"]))
    full = placed(HOSTS, [*rows, Shard(1, {"cpu": 1.0}, west)], {0: "a", 1: "b"})
    assert (full.placement.assignment, full.short, full.asked) == ({0: "a", 1: "b"}, (), {})
    assert full.placement.moved.tolist() == []
    assert placed(HOSTS, [*rows, Shard(1, {"cpu": 0.5}, west)], {0: "a", 1: "b"}).placement.assignment[0] == "b"


def test_a_shard_that_avoids_a_container_leaves_no_other_one_without_room() -> None:
    """The more important shard would take the room on `b`, and the other one may be nowhere else."""
    avoids = Constraint(avoids=frozenset("a"))
    rows = [Shard(0, {"cpu": 1.5}, avoids, priority=9), Shard(1, {"cpu": 1.0}, Constraint(frozenset(["west"])))]
    answer = placed(HOSTS, rows)
    assert (answer.placement.assignment, answer.short) == ({0: "a", 1: "b"}, ())


@pytest.mark.parametrize("state", [State.CORDONED, State.DRAINING])
def test_what_can_stay_is_no_shortage_though_open_containers_had_no_room_for_it(state: State) -> None:
    """1. One of two containers is closed; both are three quarters full, so one could not hold all. 2. All stays as it
    is, and nobody is told that the cell is too small: only that a drain waits for room."""
    hosts = [HOSTS[0], replace(HOSTS[1], state=state)]
    rows = [Shard(number, {"cpu": 0.5}) for number in range(6)]
    before = {number: "ab"[number % 2] for number in range(6)}
    answer = placed(hosts, rows, before)
    assert answer.asked == {}
    stays = [shard for shard, container in before.items() if answer.placement.assignment[shard] == container]
    assert len(stays) == (6 if state is State.CORDONED else 5)
    assert len(answer.short) == (0 if state is State.CORDONED else 2)


def test_nothing_is_short_while_every_container_is_cordoned_and_holds_what_it_may() -> None:
    hosts = [replace(host, capacity={"cpu": 20.0}, state=State.CORDONED) for host in HOSTS]
    rows = [Shard(number, {"cpu": 0.1 * (1 + number % 3)}) for number in range(60)]
    before = {number: "ab"[number * 7 % 5 % 2] for number in range(60)}
    answer = placed(hosts, rows, before)
    assert (answer.asked, answer.short, answer.placement.assignment) == ({}, (), before)


@settings(deadline=None)
@given(containers(), shards(), previous())
def test_only_constraints_leave_a_shard_without_a_place_and_without_shortage_nothing_is_different(hosts, rows, before):
    problem = problem_of(hosts, rows, dimensions=DIMENSIONS)
    within, (placement, short, asked) = place(problem, before), place_all(problem, before)
    if not short and not asked:
        assert placement.assignment == within.assignment
    by_name, by_id = {host.name: host for host in hosts}, {row.id: row for row in rows}
    assert all(may_hold(by_name[name], by_id[shard]) for shard, name in placement.assignment.items())
    for lack in placement.unplaceable:
        if lack.stays_on is None and lack.cause in (Cause.CAPACITY_SHORT, Cause.TOO_LARGE):
            offers = [host.capacity for host in hosts if host.state is State.OPEN and may_hold(host, by_id[lack.shard])]
            assert all(min(offer.get(name, 0.0) for name in DIMENSIONS) == 0.0 for offer in offers), lack


@settings(deadline=None)
@given(containers(), shards(), previous())
def test_placing_again_moves_nothing(hosts, rows, before):
    problem = problem_of(hosts, rows, dimensions=DIMENSIONS)
    first = place_all(problem, before).placement
    second = place_all(problem, first.assignment).placement
    third = place_all(problem, second.assignment).placement
    if second.converged:
        assert third.assignment == second.assignment
