"""What `place` promises of every problem, possible or not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.shard_manager.placement.place import place
from tests.support.shard_manager.placement_problems import problem_of
from tests.support.shard_manager.placements import (
    DIMENSIONS,
    broken_promises,
    containers,
    fits,
    may_hold,
    previous,
    shards,
    unfounded_reasons,
    used,
)


def _problem(hosts, rows, **rules):
    return problem_of(hosts, rows, dimensions=DIMENSIONS, **rules)


@given(containers(), shards(), previous())
def test_what_always_holds(hosts, rows, before):
    assert list(broken_promises(hosts, rows, before, place(_problem(hosts, rows), before))) == []


@given(containers(), shards(), previous())
def test_a_shard_is_unplaceable_only_for_the_cause_that_is_given(hosts, rows, before):
    assert list(unfounded_reasons(hosts, rows, place(_problem(hosts, rows), before))) == []


@given(containers(), shards(), previous())
def test_placing_again_moves_nothing(hosts, rows, before):
    problem = _problem(hosts, rows)
    once = place(problem, before)
    again = place(problem, once.assignment)
    assert once.converged
    assert again.assignment == once.assignment
    assert again.unplaceable == once.unplaceable
    assert again.moved.tolist() == []


@given(containers(), shards(), previous(), st.randoms(use_true_random=False))
def test_order_of_the_arguments_does_not_matter(hosts, rows, before, random):
    mixed_hosts, mixed_rows, items = list(hosts), list(rows), list(before.items())
    for values in (mixed_hosts, mixed_rows, items):
        random.shuffle(values)
    expected = place(_problem(hosts, rows), before)
    assert place(_problem(mixed_hosts, mixed_rows), dict(items)).assignment == expected.assignment


@given(containers(), shards(), previous(), st.sampled_from([0, 2, 3, 5]))
def test_a_budget_bounds_the_moves_that_need_not_be_and_rounds_come_to_rest(hosts, rows, before, budget):
    """Shards that may stay where they were, and have room there, are moved no more than the budget allows."""
    problem, free = _problem(hosts, rows, move_budget=budget), _problem(hosts, rows, move_budget=0)
    have_to = set(place(free, before).moved.tolist())
    answer = place(problem, before)
    assert len(set(answer.moved.tolist()) - have_to) <= budget
    assert list(broken_promises(hosts, rows, before, answer)) == []
    for _ in range(60):
        if answer.converged or budget == 0:
            break
        answer = place(problem, answer.assignment)
    assert answer.converged or budget == 0
    if answer.converged:
        assert place(problem, answer.assignment).assignment == answer.assignment


@given(containers(), shards(), previous())
def test_nothing_less_important_stands_in_the_way_of_a_shard(hosts, rows, before):
    answer = place(_problem(hosts, rows), before)
    by_id = {shard.id: shard for shard in rows}
    for lack in answer.unplaceable:
        shard = by_id[lack.shard]
        important = [other for other in rows if other.priority >= shard.priority]
        sums = used(important, answer.assignment)
        for host in (host for host in hosts if host.state == 0 and may_hold(host, shard)):
            sums[host.name].update(shard.load)
            assert not fits(host, sums[host.name])
