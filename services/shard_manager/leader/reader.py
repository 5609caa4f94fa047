"""Reads the store into the view: what changed in every round, everything after an election or a break."""

from __future__ import annotations

from penstock.control.logs import logger
from services.shard_manager.leader.parts import Parts

log = logger(__name__)


def read_cell(parts: Parts, leader_epoch: int) -> bool:
    """Whether everything was read, so that all plans must be forgotten. Raises Unavailable, Fenced.

    The reason is a new term, a break in which this process may not have listened, another shard count in the store (a
    change whose answer was lost), or another incarnation of the store. The caller holds `view.writes`.
    """
    view, clock = parts.view, parts.clock
    had_break = clock.monotonic() - view.read_at > parts.settings.shard_manager_lease_seconds
    is_new_term = view.leader_epoch != leader_epoch
    takes_over = had_break or is_new_term or not _read_changes(parts)
    if takes_over:
        _take_over(parts, leader_epoch)
    view.read_at = clock.monotonic()
    return takes_over


def _take_over(parts: Parts, leader_epoch: int) -> None:
    cell, view = parts.store.take_over(leader_epoch), parts.view
    with view.lock:
        view.clear()
        view.replace_cell(cell)
        view.listening_since = parts.clock.monotonic()
        view.leader_epoch = leader_epoch
    log.info("took over", leader_epoch=leader_epoch, containers=len(cell.members), version=view.version)


def _read_changes(parts: Parts) -> bool:
    """False when the store has another shard count or incarnation."""
    view = parts.view
    cell = parts.store.read(view.read_up_to)
    if cell.facts.incarnation != view.incarnation:
        log.error("job store has another incarnation", incarnation=cell.facts.incarnation, known=view.incarnation)
        with view.lock:
            view.clear()  # No heartbeat is answered from what is known of the former one.
        return False
    if cell.facts.sharding.count != view.sharding.count:
        return False
    with view.lock:
        view.apply_facts(cell.facts)
        view.members, view.commit_number, view.failing_over = cell.members, cell.commit_number, frozenset()
        view.apply_read(cell.owners, cell.unasked_stop)
    return True
