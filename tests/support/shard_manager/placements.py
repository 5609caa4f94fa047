"""Checks an answer of `place` against the objects that the problem was made from, with plain loops of its own."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import hypothesis.strategies as st

from penstock.tasks.taking import Constraint
from services.shard_manager.placement.place import Placement
from services.shard_manager.placement.problem import State
from services.shard_manager.placement.reasons import Cause
from tests.support.shard_manager.placement_problems import Container, Shard

DIMENSIONS = ("cpu", "memory", "gpu")
ROUNDING = 1 + 1e-6
REGIONS = ("a", "b", "c")
NAMES = [f"container-{number}" for number in range(6)]

_AMOUNT = st.sampled_from([0.0, 0.1, 0.5, 1.0, 1.5, 3.0, 7.3])
_LOADS = st.dictionaries(st.sampled_from(DIMENSIONS), _AMOUNT, max_size=3)
_LABELS = st.sets(st.sampled_from(["ssd", "big"]), max_size=2).map(frozenset)


def containers(**fixed: st.SearchStrategy[object]) -> st.SearchStrategy[list[Container]]:
    """Up to six containers of all kinds; `fixed` replaces the strategy of a field."""
    fields: dict[str, st.SearchStrategy[object]] = {
        "name": st.sampled_from(NAMES),
        "capacity": st.dictionaries(st.sampled_from(DIMENSIONS), st.sampled_from([0.0, 3.0, 8.0, 20.0]), min_size=2),
        "region": st.sampled_from(REGIONS),
        "labels": _LABELS,
        "state": st.sampled_from([State.OPEN, State.OPEN, State.OPEN, State.CORDONED, State.DRAINING]),
        "headroom": st.sampled_from([0.0, 0.1, 0.5]),
    }
    return st.lists(st.builds(Container, **{**fields, **fixed}), max_size=6, unique_by=lambda row: row.name)


def shards(**fixed: st.SearchStrategy[object]) -> st.SearchStrategy[list[Shard]]:
    """Up to sixteen shards of all kinds; `fixed` replaces the strategy of a field."""
    fields: dict[str, st.SearchStrategy[object]] = {
        "id": st.integers(0, 30),
        "load": _LOADS,
        "constraint": st.builds(
            Constraint,
            st.sets(st.sampled_from(["a", "b", "nowhere"]), max_size=2).map(frozenset),
            st.one_of(st.just(frozenset()), _LABELS),
        ),
        "priority": st.integers(-1, 1),
        "job": st.sampled_from([None, "x", "y"]),
        "state_bytes": st.sampled_from([0.0, 1e9]),
        "restart_seconds": st.sampled_from([0.0, 2.0]),
    }
    return st.lists(st.builds(Shard, **{**fields, **fixed}), max_size=16, unique_by=lambda row: row.id)


def previous() -> st.SearchStrategy[dict[int, str]]:
    """Any former assignment: of shards and containers that may be gone."""
    return st.dictionaries(st.integers(0, 40), st.sampled_from([*NAMES, "gone"]), max_size=20)


def may_hold(container: Container, shard: Shard) -> bool:
    """Whether region and labels agree, and the shard does not avoid the container."""
    regions, labels, avoids = shard.constraint
    is_there = not regions or container.region in regions
    return is_there and labels <= container.labels and container.name not in avoids


def used(rows: Sequence[Shard], assignment: Mapping[int, str]) -> dict[str, Counter[str]]:
    """The load of each container by dimension."""
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for shard in rows:
        if shard.id in assignment:
            for dimension, amount in shard.load.items():
                sums[assignment[shard.id]][dimension] += amount  # type: ignore[assignment]
    return sums


def room(container: Container, dimension: str) -> float:
    """Capacity less headroom."""
    return container.capacity.get(dimension, 0.0) * (1 - container.headroom)


def fits(container: Container, load: Mapping[str, float]) -> bool:
    """Whether the container has room for the load."""
    return all(load[dimension] <= room(container, dimension) * ROUNDING for dimension in load)


def broken_promises(
    hosts: Sequence[Container], rows: Sequence[Shard], before: Mapping[int, str], answer: Placement
) -> Iterator[str]:
    """What always holds and does not here."""
    by_name, by_id = {host.name: host for host in hosts}, {shard.id: shard for shard in rows}
    stuck = {lack.shard: lack.stays_on for lack in answer.unplaceable}
    for name, load in used(rows, answer.assignment).items():
        if not fits(by_name[name], load):
            yield f"{name} holds {load}, more than it may"
    for number, name in answer.assignment.items():
        host = by_name[name]
        if not may_hold(host, by_id[number]):
            yield f"{number} is on {name} against its constraint"
        if host.state is not State.OPEN and before.get(number) != name:
            yield f"{number} came to {name}, which is {host.state.name}"
        if host.state is State.DRAINING and stuck.get(number) != name:
            yield f"{number} is on {name}, which drains, and nothing is said"
    for shard in rows:
        if (shard.id in answer.assignment) == (shard.id in stuck and stuck[shard.id] is None):
            yield f"{shard.id} is neither placed nor named, or both"


def unfounded_reasons(hosts: Sequence[Container], rows: Sequence[Shard], answer: Placement) -> Iterator[str]:
    """Shards that are named unplaceable and are not, or not for the cause that is given."""
    by_id, sums = {shard.id: shard for shard in rows}, used(rows, answer.assignment)
    for lack in answer.unplaceable:
        shard = by_id[lack.shard]
        possible = [host for host in hosts if may_hold(host, shard)]
        is_open = [host for host in possible if host.state is State.OPEN]
        large = [host for host in is_open if fits(host, shard.load)]
        fit = [host for host in large if fits(host, Counter(shard.load) + sums[host.name])]
        expected = next(
            (
                cause
                for cause, left in (
                    (Cause.NO_CONTAINER, possible),
                    (Cause.NOT_OPEN, is_open),
                    (Cause.TOO_LARGE, large),
                    (Cause.CAPACITY_SHORT, fit),
                )
                if not left
            ),
            None,
        )
        if lack.cause is not expected:
            yield f"{lack} should be {expected}"


def worst_deviation(hosts: Sequence[Container], rows: Sequence[Shard], assignment: Mapping[int, str]) -> float:
    """How far any container is from the mean, as a share of it, where all are one tier."""
    sums, worst = used(rows, assignment), 0.0
    for dimension in DIMENSIONS:
        capacity = sum(room(host, dimension) for host in hosts)
        total = sum(sums[host.name][dimension] for host in hosts)
        for host in hosts:
            even = room(host, dimension) * total / capacity if capacity else 0.0
            if even:
                worst = max(worst, abs(sums[host.name][dimension] / even - 1))
    return worst


def best_possible(hosts: Sequence[Container], rows: Sequence[Shard]) -> float:
    """The least worst deviation of any assignment that keeps within capacity; by trying all."""
    names = [host.name for host in hosts]
    best = float("inf")
    for chosen in product(names, repeat=len(rows)):
        assignment = {shard.id: name for shard, name in zip(rows, chosen, strict=True)}
        sums = used(rows, assignment)
        if all(fits(host, sums[host.name]) for host in hosts):
            best = min(best, worst_deviation(hosts, rows, assignment))
    return best
