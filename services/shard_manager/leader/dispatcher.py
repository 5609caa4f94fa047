"""Groups orders by container, and turns the answers of containers into events of moves."""

from __future__ import annotations

import queue
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from penstock.control.logs import logger
from penstock.wire.cluster import ShardOrders
from services.shard_manager.leader.orders import Orders
from services.shard_manager.leader.view import View
from services.shard_manager.moves.moves import Added, Dropped, Event, Order, Verb

log = logger(__name__)


class OrderDispatcher:
    """For the leader's loop. Answers arrive on worker threads and wait for the next round."""

    def __init__(self, orders: Orders, view: View, wake: Callable[[], None], *, deadline_seconds: float) -> None:
        self._orders = orders
        self._view = view
        self._wake = wake
        self._deadline_seconds = deadline_seconds
        self._answers: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def send(self, orders: Iterable[Order], leader_epoch: int) -> None:
        """Sends one message for each container and verb. Returns at once."""
        grouped: dict[tuple[Verb, str], dict[int, int]] = defaultdict(dict)
        for order in orders:
            grouped[order.verb, order.container][order.shard] = order.epoch
        for (verb, container), epochs in grouped.items():
            self._send_one(verb, container, epochs, leader_epoch)

    def answers(self) -> list[Event]:
        """The events of the answers since the last call."""
        events: list[Event] = []
        while not self._answers.empty():
            events.append(self._answers.get())
        return events

    def discard_answers(self) -> None:
        """Ignores the answers to all orders sent so far: the moves that they are about were forgotten."""
        self._answers = queue.SimpleQueue()

    def _send_one(self, verb: Verb, container: str, epochs: Mapping[int, int], leader_epoch: int) -> None:
        member = self._view.members[container]
        order = ShardOrders(
            container=container,
            incarnation=member.incarnation,
            shards=dict(epochs),
            version=self._view.version,
            leader_epoch=leader_epoch,
            shard_count=self._view.sharding.count,
            deadline_seconds=self._deadline_seconds,
            unasked_stop=self._view.unasked_stop,
        )
        log.info("order sent", order=verb, container=container, shards=len(epochs), version=order.version)
        answers, kind = self._answers, Added if verb == "add" else Dropped

        def on_answer(done: frozenset[int]) -> None:
            """A worker thread calls this; the next round handles the events."""
            for shard in sorted(done):
                answers.put(kind(shard, epochs[shard]))
            self._wake()

        self._orders.send(verb, member.url, order, on_answer)
