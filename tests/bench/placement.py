"""Placement of a whole cell: `python -m tests.bench.placement [--shards 100000] [--containers 3000]`.

Times `place`, from columns and a mapping to a mapping, on a fleet shaped as in Turbine, figure 5: the first placement
(`first_s`), after every load has changed by 10 % (`again_s`), and after the loss of 1 % of the containers and of a
region (`lost_s`, the slower). Each is the median of five runs. `worst_band` is the largest deviation from the tier's
mean of any container in any dimension after any of them. `moved_share` is the share of shards that moved after the
change of load. `floor_moves_share` is a lower bound of it: containers above their band must each give so many shards
away that their largest would suffice, those below must get so many, and a move helps one of each at most.

Beside it Kubernetes' least-allocated scoring, one shard after another, which never moves what is placed; and
first-fit-decreasing, done afresh after the change. Then a fleet with constraints, one with shards that are too large
for any band, and how `place` grows.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from services.shard_manager.placement.place import Placement, home_of, place
from services.shard_manager.placement.problem import NOBODY, Floats, Ints, Problem
from tests.bench.report import finish, say
from tests.support.shard_manager.fleets import changed, constrained, fleet, without

RUNS = 5
CHANGE = 0.1
GROWTH = ((10_000, 300), (100_000, 3_000), (1_000_000, 30_000))


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=100_000)
    parser.add_argument("--containers", type=int, default=3_000)
    options = parser.parse_args()
    finish(measure(options.shards, options.containers, GROWTH), places=6)


def measure(shards: int, containers: int, growth: Iterable[tuple[int, int]]) -> dict[str, float]:
    """The figures of one fleet; prints those of its peers, of fleets with constraints, and of the sizes in `growth`."""
    problem = fleet(shards, containers)
    _describe(problem)
    figures = _figures(problem)
    _peers(problem)
    _constraints(problem)
    _heavy_tailed(shards, containers)
    for size in growth:
        _grow(*size)
    return figures


def _figures(problem: Problem) -> dict[str, float]:
    first, first_s = _timed("first placement", problem, {})
    later = changed(problem, CHANGE)
    again, again_s = _timed("after a change of load by 10 %", later, first.assignment)
    floor = _fewest_moves(later, home_of(later, first.assignment))
    moved = len(again.moved)
    say(f"  {moved} moves; no placement within the band takes fewer than {floor}")
    count, containers = len(problem.shards.ids), np.arange(len(problem.containers.names))
    few, few_s = _timed("after the loss of 1 %", without(problem, containers % 100 == 0), first.assignment)
    region, region_s = _timed("after the loss of a region", without(problem, containers % 3 == 0), first.assignment)
    return {
        "first_s": first_s,
        "again_s": again_s,
        "lost_s": max(few_s, region_s),
        "worst_band": max(answer.worst_band for answer in (first, again, few, region)),
        "moved_share": moved / count,
        "floor_moves_share": floor / count,
    }


def _timed(what: str, problem: Problem, previous: Mapping[int, str]) -> tuple[Placement, float]:
    seconds = []
    for _ in range(RUNS):
        start = time.perf_counter()
        answer = place(problem, previous)
        seconds.append(time.perf_counter() - start)
    homeless = int((home_of(problem, previous) == NOBODY).sum())
    say(
        f"{what}: {statistics.median(seconds):.3f} s; worst deviation {answer.worst_band:.3f}; {homeless} shards had no"
        f" container, {len(answer.moved)} others moved, {len(answer.unplaceable)} have no place"
    )
    return answer, statistics.median(seconds)


def _fewest_moves(problem: Problem, home: Ints) -> int:
    """A lower bound of the moves that bring every container into its band; all containers are one tier."""
    total = _totals(problem, home)
    even = _even(problem, total)
    band, load = problem.band, problem.shards.load
    largest_of_all = np.cumsum(-np.sort(-load, axis=0), axis=0)
    leave = arrive = 0
    for container in np.flatnonzero((np.abs(total - even) > even * band).any(axis=1)):
        own = np.cumsum(-np.sort(-load[home == container], axis=0), axis=0)
        excess = total[container] - even[container] * (1 + band)
        lack = even[container] * (1 - band) - total[container]
        leave += max(_how_many(own[:, column], excess[column]) for column in range(load.shape[1]))
        arrive += max(_how_many(largest_of_all[:, column], lack[column]) for column in range(load.shape[1]))
    return max(leave, arrive)


def _how_many(sums: Floats, amount: float) -> int:
    """How many of the largest it takes to reach the amount."""
    return 0 if amount <= 0 else int(np.searchsorted(sums, amount)) + 1


def _peers(problem: Problem) -> None:
    later = changed(problem, CHANGE)
    start = time.perf_counter()
    spread = _least_allocated(problem)
    seconds = time.perf_counter() - start
    say(
        f"least-allocated: {seconds:.3f} s; worst deviation {_worst(problem, spread):.3f}, after the change"
        f" {_worst(later, spread):.3f}; 0 moved"
    )
    start = time.perf_counter()
    packed = _first_fit_decreasing(problem)
    seconds = time.perf_counter() - start
    afresh = _first_fit_decreasing(later)
    say(
        f"first-fit-decreasing: {seconds:.3f} s; worst deviation {_worst(problem, packed):.3f}, after the change"
        f" {_worst(later, afresh):.3f}; {int((packed != afresh).sum())} moved"
    )


def _least_allocated(problem: Problem) -> Ints:
    """Each shard where the mean free share over the dimensions is largest after it, as Kubernetes scores nodes."""
    usable = _usable(problem)
    share, free = 1 / usable, np.ones(len(usable))
    total, holder = np.zeros_like(usable), np.empty(len(problem.shards.ids), dtype=np.int64)
    for row, load in enumerate(problem.shards.load):
        after = free - (share @ load) / len(load)
        after[((total + load) > usable).any(axis=1)] = -np.inf
        best = int(after.argmax())
        holder[row], free[best] = best, after[best]
        total[best] += load
    return holder


def _first_fit_decreasing(problem: Problem) -> Ints:
    """Each shard, the largest first, on the first container with room."""
    usable = _usable(problem)
    left, holder = usable.copy(), np.empty(len(problem.shards.ids), dtype=np.int64)
    for row in np.argsort(-(problem.shards.load / usable.mean(axis=0)).max(axis=1)):
        first = int((left >= problem.shards.load[row]).all(axis=1).argmax())
        holder[row] = first
        left[first] -= problem.shards.load[row]
    return holder


def _constraints(problem: Problem) -> None:
    bound = constrained(problem)
    first, _ = _timed("with regions, jobs and priorities, first placement", bound, {})
    beside = len(first.holder) - len(np.unique(np.stack([bound.shards.spread, first.holder]), axis=1).T)
    say(f"  {beside} shards are beside another of their job")
    _timed("  after a change of load by 10 %", changed(bound, CHANGE), first.assignment)


def _heavy_tailed(shards: int, containers: int) -> None:
    """Shards of up to 60 % of a container where 30 % is the mean, and all constraints."""
    problem = constrained(fleet(shards, containers, full=0.3, largest=0.6))
    usable = _usable(problem)
    share = problem.shards.load / problem.shards.load.sum(axis=0) * (usable.sum(axis=0) / usable.max(axis=0))
    say(f"{int((share > 1 + problem.band).any(axis=1).sum())} shards are by themselves out of any band")
    first, _ = _timed("  first placement", problem, {})
    few = without(problem, np.arange(containers) % 100 == 0)
    _timed("  fail-over of 1 %", replace(few, move_budget=0), first.assignment)
    answer = first
    for number in range(1, 6):
        answer, _ = _timed(
            f"  again, at most 1,000 moves: {number}", replace(few, move_budget=1_000), answer.assignment
        )
        if not answer.worth_continuing:
            break


def _grow(shards: int, containers: int) -> None:
    problem = fleet(shards, containers)
    times = []
    first = place(problem, {})
    for case, previous in ((problem, {}), (changed(problem, CHANGE), first.assignment)):
        start = time.perf_counter()
        answer = place(case, previous)
        times.append(f"{time.perf_counter() - start:.3f} s (worst deviation {answer.worst_band:.3f})")
    say(f"{shards} shards on {containers} containers: first {times[0]}, again {times[1]}")


def _describe(problem: Problem) -> None:
    cpu, memory = problem.shards.load[:, 0], problem.shards.load[:, 1]
    say(
        f"{len(cpu)} shards, {np.mean(cpu < 1):.0%} under a core, {np.mean(cpu > 4):.1%} over four, memory from"
        f" {memory.min():.2f} GB, {np.mean(memory < 2):.1%} under 2 GB; {len(problem.containers.names)} containers"
    )


def _usable(problem: Problem) -> Floats:
    return np.asarray(problem.containers.capacity * (1 - problem.containers.headroom)[:, None])


def _totals(problem: Problem, holder: Ints) -> Floats:
    total = np.zeros_like(problem.containers.capacity)
    np.add.at(total, holder, problem.shards.load)
    return total


def _even(problem: Problem, total: Floats) -> Floats:
    usable = _usable(problem)
    return np.asarray(usable * (total.sum(axis=0) / usable.sum(axis=0)))


def _worst(problem: Problem, holder: Ints) -> float:
    total = _totals(problem, holder)
    return float(np.abs(total / _even(problem, total) - 1).max())


if __name__ == "__main__":
    main()
