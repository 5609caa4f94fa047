"""Fails silent containers over: declares them lost and gives their shards to others, in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.control.logs import logger
from penstock.tasks.ownership import Owner
from services.shard_manager import metrics
from services.shard_manager.leader.liveness import lost
from services.shard_manager.leader.parts import Parts
from services.shard_manager.moves.moves import Event, Order, Planned, Recorded
from services.shard_manager.store.owners import Change

log = logger(__name__)


def fail_over(parts: Parts, leader_epoch: int) -> list[Order]:
    """Returns the ADD orders to the new owners. Raises Unavailable, Fenced. The caller holds `view.writes`.

    From the choice of the silent containers until the store has decided, their heartbeats are not answered.
    """
    candidates = _without_renewal(parts, _choose_silent(parts))
    if not candidates:
        return []
    heirs, view = _choose_heirs(parts, candidates), parts.view
    gone, recorded, unasked_stop = parts.store.fail_over(
        candidates, heirs, parts.settings.fail_over_seconds, leader_epoch
    )
    with view.lock:
        view.mark_lost(gone)
        view.failing_over = frozenset()
        view.apply_owners(recorded, unasked_stop)
    for name in gone:
        metrics.fail_overs.inc()
        log.warning("container lost", container=name, orphans=len(recorded))
    metrics.shards_moved.labels("fail_over").inc(len(recorded))
    return _start_moves(parts, heirs, recorded)


def _choose_silent(parts: Parts) -> dict[str, str]:
    """The silent containers, name to incarnation."""
    view = parts.view
    with view.lock:
        live = view.live()
        names = lost(
            live,
            view.heard_at,
            listening_since=view.listening_since,
            now=parts.clock.monotonic(),
            interval_seconds=parts.settings.fail_over_seconds,
        )
        view.failing_over = frozenset(names)
    return {name: live[name].incarnation for name in names}


def _without_renewal(parts: Parts, candidates: Mapping[str, str]) -> dict[str, str]:
    """The candidates that did not renew their own lease. A container may do so for hours, because it reaches the store
    and not this leader: no round places shards for its sake."""
    if not candidates:
        return {}
    silent, view = parts.store.silent(candidates, parts.settings.fail_over_seconds), parts.view
    with view.lock:
        view.failing_over &= silent
    return {name: life for name, life in candidates.items() if name in silent}


def _choose_heirs(parts: Parts, candidates: Collection[str]) -> dict[str, dict[int, Change]]:
    """The new owner of each shard of the candidates, by candidate."""
    survivors = {name: member for name, member in parts.view.live().items() if name not in candidates}
    target = parts.placement.fail_over(parts.situation(survivors))
    return {
        name: {shard: Change(target.place_of(shard), epoch) for shard, epoch in parts.view.shards_of(name).items()}
        for name in candidates
    }


def _start_moves(parts: Parts, heirs: Mapping[str, Mapping[int, Change]], recorded: Mapping[int, Owner]) -> list[Order]:
    """Follows the orphans to their new owners; ends the moves that they were in."""
    parts.moves.forget_outdated(parts.view.epochs())
    changes = {shard: change for inherited in heirs.values() for shard, change in inherited.items()}
    events: list[Event] = []
    for shard, owner in recorded.items():
        if owner.container is not None:
            before = changes[shard].from_epoch
            events.append(Planned(shard, before, None, owner.container))
            events.append(Recorded(shard, before, owner.epoch, owner.container))
    return parts.moves.handle(events, parts.clock.monotonic())
