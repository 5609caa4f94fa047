"""What shards ask, from jobs and what is known of their tasks."""

from __future__ import annotations

from penstock.tasks.dimensions import CPU, DISK, NAMES
from penstock.tasks.loads import TaskLoad
from penstock.tasks.shards import Sharding, shard_of
from services.shard_manager.placement.needs import needs_of
from tests.support.shard_manager.facts import job, reported

CPUS = NAMES.index(CPU)


def test_a_shard_asks_what_its_tasks_ask_together():
    """Shard 0 of 1 holds all: loads add up, the most important counts, restarts and state are the cost of a move."""
    loads = [
        TaskLoad("a", 0, 1, {CPU: 1.0, DISK: 2e8}),
        TaskLoad("a", 1, 1, {CPU: 0.5, DISK: 0.0}),
        reported("b", cpu=2.0),
    ]
    needs = needs_of([job("b", 1, priority=-1), job("a", 2, priority=-3)], loads, Sharding(1))
    assert needs.load[0, CPUS] == 3.5
    assert needs.priority.tolist() == [-1]
    assert needs.move_seconds.tolist() == [3 + 2.0]
    assert needs.spread.tolist() == [0]


def test_jobs_are_spread_apart():
    count = 64
    needs = needs_of([job("a", 3), job("b", 3)], [], Sharding(count))
    of_a = {shard_of(f"a/{index}", count) for index in range(3)}
    of_b = {shard_of(f"b/{index}", count) for index in range(3)} - of_a
    assert {int(needs.spread[shard]) for shard in of_a} == {0}
    assert {int(needs.spread[shard]) for shard in of_b} == {1}
    empty = set(range(count)) - of_a - of_b
    assert {int(needs.spread[shard]) for shard in empty} == {-1}


def test_those_who_ask_for_containers_are_in_order_of_importance():
    """All in one shard: priority first, then tasks, then name."""
    jobs = [job("a", 1, "x"), job("b", 2, "y"), job("c", 1, "z", priority=1), job("d", 2, "x"), job("e", 9)]
    asks = needs_of(jobs, [], Sharding(1, ("x", "y", "z"))).asks
    assert [asks.jobs[row] for row in asks.job] == ["c", "b", "d", "a"]
    assert [asks.selectors[row] for row in asks.selector] == ["z", "y", "x", "x"]
    assert asks.shard.tolist() == [0, 0, 0, 0]


def test_a_cell_without_jobs_asks_nothing():
    needs = needs_of([], [], Sharding(3))
    assert (needs.priority.tolist(), needs.move_seconds.tolist(), needs.spread.tolist()) == ([0] * 3, [0] * 3, [-1] * 3)
    assert needs.asks.shard.tolist() == []
