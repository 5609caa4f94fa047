"""The leader's round: read the store, fail over, plan, record, order. The pure modules make the decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from penstock.control.clock import Clock
from penstock.control.logs import logger
from services.shard_manager import metrics
from services.shard_manager.leader.dispatcher import OrderDispatcher
from services.shard_manager.leader.fail_over import fail_over
from services.shard_manager.leader.move_planner import MovePlanner
from services.shard_manager.leader.orders import Orders
from services.shard_manager.leader.parts import Parts
from services.shard_manager.leader.periodic import PeriodicWrites
from services.shard_manager.leader.reader import read_cell
from services.shard_manager.leader.recorder import record_owners, reshard
from services.shard_manager.leader.view import View
from services.shard_manager.moves.moves import Added, Dropped, Event, Moves, Phase
from services.shard_manager.placement.controller import PlacementController
from services.shard_manager.settings import ShardManagerSettings
from services.shard_manager.store.port import ShardStore

log = logger(__name__)


class ShardManager:
    """One thread at a time calls `round`, with the leader epoch. Raises Unavailable, Fenced."""

    def __init__(
        self,
        store: ShardStore,
        view: View,
        orders: Orders,
        settings: ShardManagerSettings,
        clock: Clock,
        wake: Callable[[], None],
    ) -> None:
        moves = Moves(drop_retry_seconds=settings.drop_retry_seconds, add_limit_seconds=settings.add_limit_seconds)
        placement = PlacementController(store, settings, clock)
        self._parts = Parts(store, view, moves, placement, settings, clock)
        self._view, self._moves, self._placement = view, moves, placement
        self._clock, self._wake = clock, wake
        self._planner = MovePlanner(self._parts)
        self._dispatcher = OrderDispatcher(orders, view, wake, deadline_seconds=settings.drop_deadline_seconds)
        self._periodic = PeriodicWrites(self._parts)

    def round(self, leader_epoch: int) -> None:
        """One pass. The next round sees again whatever this one leaves undone."""
        with self._view.writes:
            self._read(leader_epoch)
            self._dispatcher.send(fail_over(self._parts, leader_epoch), leader_epoch)
        self._moves.handle(self._confirmations(), self._clock.monotonic())
        self._dispatcher.send(self._planner.run(), leader_epoch)
        with self._view.writes:
            self._dispatcher.send(record_owners(self._parts, leader_epoch), leader_epoch)
            self._reshard(leader_epoch)
        self._dispatcher.send(self._moves.retries(self._clock.monotonic()), leader_epoch)
        self._publish()
        self._placement.save(leader_epoch)
        self._periodic.run(leader_epoch)

    def _read(self, leader_epoch: int) -> None:
        """Reads the store. Forgets all plans after a take-over, and moves that the store has overtaken otherwise."""
        if read_cell(self._parts, leader_epoch):
            self._moves.forget_all()
            self._placement.reset()
            self._planner.reset()
            self._dispatcher.discard_answers()
            return
        for move in self._moves.forget_outdated(self._view.epochs()):
            log.info("move overtaken", shard=move.shard, epoch=move.epoch, phase=move.phase.value)

    def _confirmations(self) -> list[Event]:
        """What containers said about moves, in answers to orders and in heartbeats."""
        events = self._dispatcher.answers()
        with self._view.lock:
            dropped, owners = self._view.dropped_by_owner(), self._view.owners
            events += [Dropped(shard, owners[shard].epoch) for shard in dropped if shard in self._moves]
            events += [Added(move.shard, move.epoch) for move in self._moves.confirmed(self._view.confirms)]
        return events

    def _reshard(self, leader_epoch: int) -> None:
        if reshard(self._parts, leader_epoch):
            self._planner.reset()
            self._dispatcher.discard_answers()
            self._wake()

    def _publish(self) -> None:
        """Updates metrics, and the shards that answers to heartbeats withhold."""
        for move in self._moves.unconfirmed(self._clock.monotonic()):
            metrics.unconfirmed.inc()
            log.warning("shard not confirmed", shard=move.shard, container=move.destination, epoch=move.epoch)
        with self._view.lock:
            self._view.withheld = self._moves.withheld()
            states = Counter("live" if member.live else "lost" for member in self._view.members.values())
            without_owner = sum(owner.container is None for owner in self._view.owners.values())
        for state in ("live", "lost"):
            metrics.containers.labels(state).set(states[state])
        metrics.shards_without_owner.set(without_owner)
        phases = Counter(move.phase for move in self._moves)
        for phase in Phase:
            metrics.moves_in_flight.labels(phase.value).set(phases[phase])
