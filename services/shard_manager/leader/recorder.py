"""Records new owners and new shard counts in the store. The callers hold `view.writes`."""

from __future__ import annotations

from penstock.control.logs import logger
from services.shard_manager import metrics
from services.shard_manager.leader.parts import Parts
from services.shard_manager.moves.drains import to_be_emptied
from services.shard_manager.moves.moves import Order, Recorded
from services.shard_manager.moves.planner import destination_of
from services.shard_manager.moves.resharding import is_due
from services.shard_manager.store.owners import Change

log = logger(__name__)


def record_owners(parts: Parts, leader_epoch: int) -> list[Order]:
    """Writes the new owners of the shards that nobody runs; returns the ADD orders. Raises Unavailable, Fenced."""
    changes = _changes(parts)
    if not changes:
        return []
    recorded, unasked_stop = parts.store.record(changes, leader_epoch)
    with parts.view.lock:
        parts.view.apply_owners(recorded, unasked_stop)
    metrics.shards_moved.labels("placement").inc(len(recorded))
    log.info("shards moved", shards=len(recorded), version=parts.view.version)
    events = [
        Recorded(shard, changes[shard].from_epoch, owner.epoch, owner.container) for shard, owner in recorded.items()
    ]
    return parts.moves.handle(events, parts.clock.monotonic())


def reshard(parts: Parts, leader_epoch: int) -> bool:
    """Changes the number of shards, if another one is wanted and no shard moves. Raises Unavailable, Fenced.

    With no move there is no order whose answer could be taken for one about a shard of the new count.
    """
    view = parts.view
    with view.lock:
        owners, wanted, dropped, before = (
            view.owners,
            view.wanted_shard_count,
            view.dropped_by_owner(),
            len(view.owners),
        )
    if wanted == before or len(parts.moves) or not is_due(owners, wanted, dropped):
        return False
    cell = parts.store.reshard(wanted, leader_epoch)
    with view.lock:
        view.replace_cell(cell)
    log.info("shard count changed", shards=len(cell.owners), before=before, version=view.version)
    return True


def _changes(parts: Parts) -> dict[int, Change]:
    """Each shard to its planned destination; to the target's if that takes no shards; else to nobody."""
    live, target = parts.view.live(), parts.placement.target
    takers = live.keys() - to_be_emptied(live, parts.clock.now())
    changes: dict[int, Change] = {}
    for move in parts.moves.to_record():
        place = None if target is None else target.place_of(move.shard)
        changes[move.shard] = Change(destination_of(move.destination, place, takers), move.epoch)
    return changes
