"""Shards to containers, evenly by count, moving as few as can be. Pure.

The first form of placement: it knows neither load nor regions. Any two containers differ by at most one shard.
The result depends only on the arguments' values, and is a fixed point: spreading again changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

Assignment = dict[int, str]


def spread(shards: Collection[int], containers: Collection[str], previous: Mapping[int, str]) -> Assignment:
    """A container for each shard, near `previous`; empty when there is no container.

    As few shards as possible change their container: those that fill most keep the odd ones, and only what is above
    a container's quota, or on a container that is no more, moves.
    """
    if not containers:
        return {}
    present = _shards_by_container(sorted(shards), containers, previous)
    quotas = _quotas(len(shards), {container: len(held) for container, held in present.items()})
    kept = {container: held[: quotas[container]] for container, held in present.items()}
    assignment = {shard: container for container, held in kept.items() for shard in held}
    homeless = [shard for shard in sorted(shards) if shard not in assignment]
    vacancies = _vacancies({container: quotas[container] - len(held) for container, held in kept.items()})
    assignment |= dict(zip(homeless, vacancies, strict=True))
    _check_even(assignment, containers)
    return assignment


def _shards_by_container(
    shards: list[int], containers: Collection[str], previous: Mapping[int, str]
) -> dict[str, list[int]]:
    present: dict[str, list[int]] = {container: [] for container in sorted(containers)}
    for shard in shards:
        container = previous.get(shard)
        if container in present:
            present[container].append(shard)
    return present


def _quotas(shard_count: int, counts: Mapping[str, int]) -> dict[str, int]:
    """How many shards each container gets; one more for those that have most, so that they need not give it away."""
    each, odd = divmod(shard_count, len(counts))
    fullest_first = sorted(counts, key=lambda container: (-counts[container], container))
    return {container: each + (place < odd) for place, container in enumerate(fullest_first)}


def _vacancies(free: Mapping[str, int]) -> list[str]:
    """Containers in turns, each as often as it has room: neighbouring shards go to different containers."""
    turns = [(turn, container) for container, room in free.items() for turn in range(room)]
    return [container for _, container in sorted(turns)]


def _check_even(assignment: Assignment, containers: Collection[str]) -> None:
    counts = dict.fromkeys(containers, 0)
    for container in assignment.values():
        counts[container] += 1
    if max(counts.values()) - min(counts.values()) > 1:
        raise AssertionError(f"the spread is uneven: {counts}")
