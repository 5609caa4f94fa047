"""The leader's rounds: read the store, fail over, plan, record, order. Decisions are made in the pure modules."""

from __future__ import annotations

import queue
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

from penstock.control.clock import Clock
from penstock.control.logs import logger
from penstock.store.shards import Change
from penstock.tasks.ownership import OPEN, Member, Owner
from penstock.wire.cluster import ShardOrders
from services.shard_manager import metrics
from services.shard_manager.drains import overdue, taken_off
from services.shard_manager.liveness import is_gathering, lost
from services.shard_manager.moves import (
    Added,
    Dropped,
    DropUnanswered,
    Event,
    Freed,
    Instruction,
    Moves,
    Phase,
    Planned,
    Recorded,
    SendDrop,
)
from services.shard_manager.orders import Orders, Verb
from services.shard_manager.placer import Placer, Situation
from services.shard_manager.planning import destination_of, plan, present_of
from services.shard_manager.resharding import is_due, together
from services.shard_manager.settings import ShardManagerSettings
from services.shard_manager.store import ShardStore
from services.shard_manager.view import View

log = logger(__name__)
LOOK_AT_JOBS_SECONDS = 5.0


class ShardManager:
    """`round` is called by one thread at a time, with the leader epoch. Raises Unavailable, Fenced."""

    def __init__(
        self,
        store: ShardStore,
        view: View,
        orders: Orders,
        settings: ShardManagerSettings,
        clock: Clock,
        wake: Callable[[], None],
    ) -> None:
        self._store = store
        self._view = view
        self._orders = orders
        self._settings = settings
        self._clock = clock
        self._wake = wake
        self._moves = Moves(
            drop_retry_seconds=settings.drop_retry_seconds, add_limit_seconds=settings.add_limit_seconds
        )
        self._placer = Placer(store, settings, clock)
        self._answers: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._followed_at = float("-inf")
        self._saved_at = float("-inf")
        self._settled: object = None
        self._seen_of_jobs: object = None
        self._looked_at_jobs_at = float("-inf")

    def round(self, leader_epoch: int) -> None:
        """One pass; what it leaves undone the next one sees again."""
        with self._view.writes:
            self._follow(leader_epoch)
            self._send(self._fail_over(leader_epoch), leader_epoch)
        self._take_in_answers()
        self._send(self._plan(), leader_epoch)
        with self._view.writes:
            self._send(self._record(leader_epoch), leader_epoch)
            self._reshard(leader_epoch)
        self._send(self._moves.retries(self._clock.monotonic()), leader_epoch)
        self._publish()
        self._placer.save(leader_epoch)
        self._save_heartbeats(leader_epoch)
        self._look_at_jobs(leader_epoch)

    # ---- following the store

    def _follow(self, leader_epoch: int) -> None:
        """Reads what changed; everything, after an election or a break in which this process may not have listened."""
        now = self._clock.monotonic()
        had_break = now - self._followed_at > self._settings.shard_manager_lease_seconds
        if had_break or self._view.leader_epoch != leader_epoch or not self._refresh():
            self._take_over(leader_epoch)
        self._followed_at = self._clock.monotonic()

    def _take_over(self, leader_epoch: int) -> None:
        cell = self._store.take_over(leader_epoch)
        self._moves.forget_all()
        self._placer.begin()
        self._answers = queue.SimpleQueue()  # answers to orders from before the break speak of forgotten moves
        self._settled = None
        with self._view.lock:
            self._view.clear()
            self._view.take_in_cell(cell)
            self._view.listening_since = self._clock.monotonic()
            self._view.leader_epoch = leader_epoch
        log.info("took over", leader_epoch=leader_epoch, containers=len(cell.members), version=self._view.version)

    def _refresh(self) -> bool:
        """False when the shards are others than the known ones: a change of their number whose answer was lost."""
        facts, members, changed, commit_number = self._store.read(self._view.read_up_to)
        if facts.sharding.count != self._view.sharding.count:
            return False
        with self._view.lock:
            self._view.take_in_facts(facts)
            self._view.members = members
            self._view.commit_number = commit_number
            self._view.failing = frozenset()
            self._view.take_in(changed)
            epochs = {shard: owner.epoch for shard, owner in self._view.owners.items()}
        for move in self._moves.forget_outdated(epochs):
            log.info("move overtaken", shard=move.shard, epoch=move.epoch, phase=move.phase.value)
        return True

    # ---- fail-over

    def _fail_over(self, leader_epoch: int) -> list[Instruction]:
        """Declares silent containers lost and gives their shards away, in one transaction.

        From the choice on their heartbeats are not answered, until the store has decided.
        """
        candidates = self._choose_silent()
        if not candidates:
            return []
        live = self._view.live()
        survivors = {name: member for name, member in live.items() if name not in candidates}
        target = self._placer.fail_over(self._situation(survivors))
        heirs = {
            name: {shard: Change(target.place_of(shard), epoch) for shard, epoch in self._view.shards_of(name).items()}
            for name in candidates
        }
        interval_seconds = self._settings.fail_over_seconds
        gone, recorded = self._store.fail_over(candidates, heirs, interval_seconds, leader_epoch)
        with self._view.lock:
            self._view.mark_lost(gone)
            self._view.failing = frozenset()
            self._view.apply(recorded)
        self._count_fail_over(gone, recorded)
        return self._take_over_orphans(heirs, recorded)

    def _choose_silent(self) -> dict[str, str]:
        with self._view.lock:
            live = self._view.live()
            names = lost(
                live,
                self._view.heard_at,
                listening_since=self._view.listening_since,
                now=self._clock.monotonic(),
                interval_seconds=self._settings.fail_over_seconds,
            )
            self._view.failing = frozenset(names)
        return {name: live[name].incarnation for name in names}

    def _count_fail_over(self, gone: Iterable[str], recorded: dict[int, Owner]) -> None:
        for name in gone:
            metrics.fail_overs.inc()
            log.warning("container lost", container=name, orphans=len(recorded))
        metrics.shards_moved.labels("fail_over").inc(len(recorded))

    def _take_over_orphans(self, heirs: dict[str, dict[int, Change]], recorded: dict[int, Owner]) -> list[Instruction]:
        """Follows recorded orphans to their new owners; moves that they were in the middle of are overtaken."""
        epochs = {shard: owner.epoch for shard, owner in self._view.owners.items()}
        self._moves.forget_outdated(epochs)
        changes = {shard: change for inherited in heirs.values() for shard, change in inherited.items()}
        events: list[Event] = []
        for shard, owner in recorded.items():
            if owner.container is not None:
                before = changes[shard].from_epoch
                events.append(Freed(shard, before, owner.container))
                events.append(Recorded(shard, before, owner.epoch, owner.container))
        return self._moves.handle(events, self._clock.monotonic())

    # ---- moves

    def _take_in_answers(self) -> None:
        """What containers said, to orders and in heartbeats; instructions never follow from it alone."""
        events: list[Event] = []
        while not self._answers.empty():
            events.append(self._answers.get())
        with self._view.lock:
            given_up, owners = self._view.given_up(), self._view.owners
            events += [Dropped(shard, owners[shard].epoch) for shard in given_up if shard in self._moves]
            events += [Added(move.shard, move.epoch) for move in self._moves.adding(self._view.confirms)]
        self._moves.handle(events, self._clock.monotonic())

    def _plan(self) -> list[Instruction]:
        """Plans moves towards the target, unless nothing changed since a plan that found none, and off containers
        whose drain has come to its limit."""
        now, on_their_way = self._clock.monotonic(), frozenset(move.shard for move in self._moves)
        with self._view.lock:
            live, given_up, wanted = self._view.live(), self._view.given_up(), self._view.wanted_shard_count
            owners = dict(self._view.owners)
            is_gathering = self._is_gathering(now)
            if not is_gathering:
                self._view.joined_at.clear()
        target = self._placer.follow(self._situation(live), may_place=not is_gathering and bool(live))
        if target is None:
            return []
        drained = overdue(live, self._clock.now())
        situation = (self._view.version, target, live.keys(), frozenset(given_up), on_their_way, drained, wanted)
        if situation == self._settled:
            return []
        room = self._settings.moves_in_flight - len(on_their_way)
        off = taken_off(owners, drained, target.place_of, live, on_their_way, given_up) if drained else []
        busy = on_their_way | {event.shard for event in off}
        others = plan(owners, target, live, busy, given_up, move_limit=room if wanted <= len(owners) else 0)
        events = [*off, *others]
        metrics.moves_planned.inc(sum(isinstance(event, Planned) for event in events))
        self._settled = situation if not events else None
        return self._moves.handle(events, now)

    def _situation(self, live: Mapping[str, Member]) -> Situation:
        """Shards that are to become one are placed as one."""
        sharding, view = self._view.sharding, self._view
        wanted = min(sharding.count, view.wanted_shard_count)

        def present() -> dict[int, str]:
            shards = present_of(view.owners, live, self._on_their_way())
            takers = [name for name, member in live.items() if member.availability == OPEN]
            return shards if wanted == sharding.count else together(shards, sharding.count, wanted, takers)

        return Situation(live, present, replace(sharding, count=wanted), view.commit_number)

    def _is_gathering(self, now: float) -> bool:
        return is_gathering(
            self._view.joined_at,
            now=now,
            gather_seconds=self._settings.gather_seconds,
            gather_limit_seconds=self._settings.gather_limit_seconds,
        )

    def _on_their_way(self) -> dict[int, str]:
        return {move.shard: move.destination for move in self._moves if move.destination is not None}

    def _record(self, leader_epoch: int) -> list[Instruction]:
        """Writes the new owners of the shards that nobody runs."""
        changes = self._changes()
        if not changes:
            return []
        recorded = self._store.record(changes, leader_epoch)
        with self._view.lock:
            self._view.apply(recorded)
        metrics.shards_moved.labels("placement").inc(len(recorded))
        log.info("shards moved", shards=len(recorded), version=self._view.version)
        events = [
            Recorded(shard, changes[shard].from_epoch, owner.epoch, owner.container)
            for shard, owner in recorded.items()
        ]
        return self._moves.handle(events, self._clock.monotonic())

    def _changes(self) -> dict[int, Change]:
        """Each shard to its destination, to the target's where that takes none any more, or to nobody without one."""
        live, target = self._view.live(), self._placer.target
        takers = live.keys() - overdue(live, self._clock.now())
        changes: dict[int, Change] = {}
        for move in self._moves.to_record():
            place = None if target is None else target.place_of(move.shard)
            changes[move.shard] = Change(destination_of(move.destination, place, takers), move.epoch)
        return changes

    def _reshard(self, leader_epoch: int) -> None:
        """Changes the number of shards, if another is wanted and no shard is on its way. Then no order is under way
        whose answer could be taken for one about a shard of the new number."""
        with self._view.lock:
            owners, wanted, given_up = self._view.owners, self._view.wanted_shard_count, self._view.given_up()
            before = len(owners)
            if wanted == before or len(self._moves) or not is_due(owners, wanted, given_up):
                return
        cell = self._store.reshard(wanted, leader_epoch)
        self._answers = queue.SimpleQueue()
        self._settled = None
        with self._view.lock:
            self._view.take_in_cell(cell)
        log.info("shard count changed", shards=len(cell.owners), before=before, version=self._view.version)
        self._wake()

    # ---- orders

    def _send(self, instructions: list[Instruction], leader_epoch: int) -> None:
        """One order a container and verb."""
        grouped: dict[tuple[Verb, str], dict[int, int]] = defaultdict(dict)
        for instruction in instructions:
            if isinstance(instruction, SendDrop):
                grouped["drop", instruction.source][instruction.shard] = instruction.epoch
            else:
                grouped["add", instruction.destination][instruction.shard] = instruction.epoch
        for (verb, container), epochs in grouped.items():
            self._send_one(verb, container, epochs, leader_epoch)

    def _send_one(self, verb: Verb, container: str, epochs: dict[int, int], leader_epoch: int) -> None:
        member = self._view.members[container]
        order = ShardOrders(
            container=container,
            incarnation=member.incarnation,
            shards=epochs,
            version=self._view.version,
            leader_epoch=leader_epoch,
            shard_count=self._view.sharding.count,
            deadline_seconds=self._settings.drop_deadline_seconds,
        )
        log.info("order sent", order=verb, container=container, shards=len(epochs), version=order.version)
        answers = self._answers

        def on_answer(done: frozenset[int]) -> None:
            """Called by a worker thread; the next round takes the events in."""
            for event in _events(verb, epochs, done):
                answers.put(event)
            self._wake()

        self._orders.send(verb, member.url, order, on_answer)

    # ---- what others see

    def _publish(self) -> None:
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

    def _save_heartbeats(self, leader_epoch: int) -> None:
        """Writes, every few seconds, when containers were heard of."""
        monotonic, now = self._clock.monotonic(), self._clock.now()
        if monotonic - self._saved_at < self._settings.save_heartbeats_seconds:
            return
        with self._view.lock:
            heard_at = {name: now - timedelta(seconds=monotonic - at) for name, at in self._view.heard_at.items()}
        self._store.save_heartbeats(heard_at, leader_epoch)
        self._saved_at = monotonic

    def _look_at_jobs(self, leader_epoch: int) -> None:
        """What a running job is the first to ask for, and a container has, gets a place within a few seconds."""
        now = self._clock.monotonic()
        if now - self._looked_at_jobs_at < LOOK_AT_JOBS_SECONDS:
            return
        seen = (self._view.commit_number, frozenset(member.offers() for member in self._view.live().values()))
        if seen != self._seen_of_jobs:
            with self._view.writes:
                self._store.give_jobs_a_place(leader_epoch)
        self._seen_of_jobs, self._looked_at_jobs_at = seen, now


def _events(verb: Verb, epochs: dict[int, int], done: frozenset[int]) -> list[Event]:
    """What the answer to an order says; `epochs`: the shards ordered, `done`: those answered for."""
    if verb == "add":
        return [Added(shard, epoch) for shard, epoch in epochs.items() if shard in done]
    return [Dropped(shard, epoch) if shard in done else DropUnanswered(shard, epoch) for shard, epoch in epochs.items()]
