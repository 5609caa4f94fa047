"""Which containers are lost, by the time of their last heartbeat. Pure; all times are monotonic seconds of one clock.

A container counts 40 s from when it *sent* the last heartbeat that was answered. The Shard Manager counts 60 s from
when it *received* one. So the container has stopped its tasks before its shards move, whatever the clocks show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def lost(
    containers: Iterable[str],
    heard_at: Mapping[str, float],
    *,
    listening_since: float,
    now: float,
    interval_seconds: float,
) -> tuple[str, ...]:
    """The containers that were silent for a whole fail-over interval, in order of name.

    `listening_since`: when this leader began to answer without a break. Silence before that is no evidence, since
    another leader may have heard the container.
    """
    deadline = now - interval_seconds
    silent_since = {name: max(heard_at.get(name, listening_since), listening_since) for name in containers}
    return tuple(sorted(name for name, since in silent_since.items() if since < deadline))


def is_gathering(joined_at: Iterable[float], *, now: float, gather_seconds: float, gather_limit_seconds: float) -> bool:
    """Whether to wait for more containers before shards without an owner are placed.

    When a cell starts, its containers join within moments of each other. Shards placed on the first one would only
    move again. `joined_at`: when containers joined since shards were last placed.
    """
    times = sorted(joined_at)
    return bool(times) and now - times[-1] < gather_seconds and now - times[0] < gather_limit_seconds
