"""Moves of shards as a state machine: events in, orders out. Pure; a thin shell sends the orders.

A move goes DROPPING -> DROPPED -> ADDING -> done. The store is written between DROPPED and ADDING and nowhere else. So
a shard has a new owner only after its old owner said that it stopped the tasks. A missing answer is no evidence: the
DROP is repeated until the source answers, lists the shard as dropped in a heartbeat, or is declared lost.
The move of a shard that nobody runs starts at DROPPED. A shard that must leave its container and has no place elsewhere
goes DROPPING -> DROPPED -> done. The store then records that nobody owns it.

Every event carries an assignment epoch. An event of another epoch than the move's is an echo of an older order, and
changes nothing. So does an answer that comes twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

Verb = Literal["drop", "add"]


class Phase(StrEnum):
    """How far a move is."""

    DROPPING = "dropping"
    DROPPED = "dropped"
    ADDING = "adding"


@dataclass(frozen=True)
class Move:
    """A moving shard. `epoch`: its present assignment epoch. `ordered_at`: when the last order was sent.

    `destination` None: the shard has no place, and only leaves its source. `repeated`: the DROP was repeated.
    """

    shard: int
    epoch: int
    source: str | None
    destination: str | None
    phase: Phase
    ordered_at: float
    repeated: bool = False


# ---- events


@dataclass(frozen=True)
class Planned:
    """The shard is to move from `source` to `destination`.

    `source` None: nobody runs it, since it has no owner or its owner dropped it; `destination` None: it gets no owner.
    """

    shard: int
    epoch: int
    source: str | None
    destination: str | None


@dataclass(frozen=True)
class Dropped:
    """The source answered SUCCESS, or listed the shard as dropped in a heartbeat."""

    shard: int
    epoch: int


@dataclass(frozen=True)
class Recorded:
    """The store recorded `destination` (None: nobody) as the owner, under `epoch` in place of `from_epoch`."""

    shard: int
    from_epoch: int
    epoch: int
    destination: str | None


@dataclass(frozen=True)
class Added:
    """The destination answered SUCCESS, or listed the shard as held in a heartbeat."""

    shard: int
    epoch: int


Event = Planned | Dropped | Recorded | Added


@dataclass(frozen=True)
class Order:
    """An instruction: order `container` to drop the shard that it owns under `epoch`, or tell it that it owns it."""

    verb: Verb
    shard: int
    epoch: int
    container: str


class IllegalMove(Exception):
    """An event that cannot happen in the phase of the move: a bug."""


class Moves:
    """All moves in flight, by shard."""

    def __init__(self, *, drop_retry_seconds: float, add_limit_seconds: float) -> None:
        self._drop_retry_seconds = drop_retry_seconds
        self._add_limit_seconds = add_limit_seconds
        self._moves: dict[int, Move] = {}

    def __contains__(self, shard: object) -> bool:
        return shard in self._moves

    def __iter__(self) -> Iterator[Move]:
        return iter(self._moves.values())

    def __len__(self) -> int:
        return len(self._moves)

    def handle(self, events: Iterable[Event], now: float) -> list[Order]:
        """Handles events; returns the orders to send. `now` in monotonic seconds. Raises IllegalMove."""
        orders: list[Order] = []
        for event in events:
            orders += self._handle_one(event, now)
        return orders

    def retries(self, now: float) -> list[Order]:
        """The DROP orders to repeat: `drop_retry_seconds` after the last one, while the source does not answer."""
        orders = []
        for move in self._in(Phase.DROPPING):
            if now - move.ordered_at >= self._drop_retry_seconds and move.source is not None:
                self._put(replace(move, ordered_at=now, repeated=True))
                orders.append(Order("drop", move.shard, move.epoch, move.source))
        return orders

    def withheld(self) -> frozenset[int]:
        """The shards whose source did not obey the first DROP. Answers to its heartbeats leave them out, which also
        makes the source drop them.

        They stay withheld until the store records the new owner. Otherwise a source that has forgotten its DROP would
        take them again.
        """
        return frozenset(move.shard for move in self if move.repeated and move.phase is not Phase.ADDING)

    def unconfirmed(self, now: float) -> list[Move]:
        """Ends and returns the moves whose destination did not confirm the shard in time.

        The store names the owner, so the answer to its next heartbeat tells it again. Only the watch ends.
        """
        late = [move for move in self._in(Phase.ADDING) if now - move.ordered_at >= self._add_limit_seconds]
        for move in late:
            del self._moves[move.shard]
        return late

    def destinations(self) -> dict[int, str]:
        """The destinations of moving shards, without those that go to nobody."""
        return {move.shard: move.destination for move in self if move.destination is not None}

    def confirmed(self, confirms: Callable[[int, int], bool]) -> list[Move]:
        """The moves whose destination holds the shard; `confirms` tells that for a shard and epoch."""
        return [move for move in self._in(Phase.ADDING) if confirms(move.shard, move.epoch)]

    def to_record(self) -> list[Move]:
        """The moves whose shard nobody runs, and whose new owner is not recorded yet."""
        return self._in(Phase.DROPPED)

    def forget_outdated(self, epochs: Mapping[int, int]) -> list[Move]:
        """Ends and returns the moves of shards whose assignment epoch has changed (fail-over, restart of the owner)."""
        outdated = [move for move in self if epochs.get(move.shard) != move.epoch]
        for move in outdated:
            del self._moves[move.shard]
        return outdated

    def forget_all(self) -> None:
        """Ends all moves: a new leader starts from the store and from what containers say."""
        self._moves.clear()

    def _in(self, phase: Phase) -> list[Move]:
        return [move for move in self if move.phase is phase]

    def _handle_one(self, event: Event, now: float) -> list[Order]:
        move = self._moves.get(event.shard)
        if isinstance(event, Planned):
            return self._start(move, event, now)
        epoch = event.from_epoch if isinstance(event, Recorded) else event.epoch
        if move is None or epoch != move.epoch:
            return []
        if isinstance(event, Recorded):
            return self._record(move, event, now)
        if isinstance(event, Dropped):
            self._put(replace(move, phase=Phase.DROPPED))
        elif move.phase is Phase.ADDING:
            del self._moves[move.shard]
        return []

    def _start(self, move: Move | None, event: Planned, now: float) -> list[Order]:
        if move is not None:
            raise IllegalMove(f"{event} cannot happen to {move}")
        phase = Phase.DROPPED if event.source is None else Phase.DROPPING
        self._put(Move(event.shard, event.epoch, event.source, event.destination, phase, now))
        return [] if event.source is None else [Order("drop", event.shard, event.epoch, event.source)]

    def _record(self, move: Move, event: Recorded, now: float) -> list[Order]:
        if move.phase is not Phase.DROPPED:
            raise IllegalMove(f"{event} cannot happen to {move}")
        if event.destination is None:
            del self._moves[event.shard]
            return []
        self._put(replace(move, phase=Phase.ADDING, epoch=event.epoch, destination=event.destination, ordered_at=now))
        return [Order("add", event.shard, event.epoch, event.destination)]

    def _put(self, move: Move) -> None:
        self._moves[move.shard] = move
