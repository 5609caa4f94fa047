"""Heartbeats: registers containers and answers which shards each owns. Known containers are answered from memory."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from penstock.control.clock import Clock
from penstock.control.errors import Fenced, NotLeader, Unavailable
from penstock.control.logs import logger
from penstock.control.loop import Leadership
from penstock.tasks.ownership import Member, Membership, joined
from penstock.wire.cluster import HeartbeatAnswer, HeartbeatRequest
from services.shard_manager.leader.view import View
from services.shard_manager.settings import ShardManagerSettings
from services.shard_manager.store.port import ShardStore

log = logger(__name__)
WRITES_WAIT_SECONDS = 5.0


class Heartbeats:
    """The leader's side of heartbeats. Safe from any thread."""

    def __init__(
        self,
        store: ShardStore,
        view: View,
        leadership: Leadership,
        settings: ShardManagerSettings,
        clock: Clock,
        wake: Callable[[], None],
    ) -> None:
        self._store = store
        self._view = view
        self._leadership = leadership
        self._clock = clock
        self._lease_seconds = settings.container_lease_seconds
        self._drain_grace = timedelta(seconds=settings.drain_grace_seconds)
        self._wake = wake
        self._refused: dict[str, str] = {}

    def answer_known(self, request: HeartbeatRequest) -> HeartbeatAnswer | None:
        """The answer for a container that is known and live; None if the container must be registered first.

        Does no I/O. Raises NotLeader. Raises Unavailable while this leader is not ready, fails the container over, or
        lets its lease run out. A refused heartbeat counts as never received.
        """
        self._leader_epoch()
        with self._view.lock:
            if request.container in self._view.failing_over:
                raise Unavailable("the container is being failed over; ask again")
            if self._view.is_past_drain(request.container, self._clock.now(), self._drain_grace):
                raise Unavailable("the container's drain is over: its lease is not renewed while it owns shards")
            if not self._view.is_current(request.container, request.incarnation):
                return None
            self._view.apply_heartbeat(request, self._clock.monotonic())
            answer = self._answer(request.container, known=True)
            is_news = self._is_news(request)
        if is_news:
            self._wake()
        return answer

    def register(self, request: HeartbeatRequest) -> HeartbeatAnswer:
        """Registers a container, or a new incarnation of one, and answers. Raises NotLeader, Unavailable."""
        leader_epoch = self._leader_epoch()
        if not self._view.writes.acquire(timeout=WRITES_WAIT_SECONDS):
            raise Unavailable("the Shard Manager is waiting for the store; ask again")
        try:
            decided = self._register(request, leader_epoch)
        except Fenced as error:
            raise NotLeader(error.detail) from error
        finally:
            self._view.writes.release()
        if decided is Membership.REFUSED:
            with self._view.lock:
                return self._answer(request.container, known=False)
        answer = self.answer_known(request)
        self._wake()
        if answer is None:
            raise Unavailable("another life of the container registered meanwhile; ask again")
        return answer

    def readiness(self) -> dict[str, Any]:
        """For `/readyz`: whether this process leads, and how much it knows."""
        epoch = self._leadership.epoch
        with self._view.lock:
            containers, version = len(self._view.live()), self._view.version
        if epoch is None:
            return {"role": "standby"}
        return {"role": "leader", "leader_epoch": epoch, "containers": containers, "version": version}

    def leader_url(self) -> str | None:
        """The leader's URL by the store; None if it is unknown."""
        return self._store.leader_url()

    def _leader_epoch(self) -> int:
        epoch = self._leadership.epoch
        if epoch is None:
            raise NotLeader("this Shard Manager does not lead: another one does, or none at the moment")
        if self._view.leader_epoch != epoch:
            raise Unavailable("this Shard Manager is taking over; ask again")
        return epoch

    def _register(self, request: HeartbeatRequest, leader_epoch: int) -> Membership:
        member = _member(request)
        empty, above = not request.held and not request.dropped, self._view.read_up_to
        decided, changed, commit, facts, unasked_stop = self._store.register(
            member, empty=empty, above=above, leader_epoch=leader_epoch
        )
        if facts.sharding.count != self._view.sharding.count:
            self._wake()
            raise Unavailable("the number of shards has just changed; ask again")
        with self._view.lock:
            self._view.apply_read(changed, unasked_stop)
            self._view.apply_facts(facts)
            self._view.commit_number = commit
            if decided is not Membership.REFUSED:
                self._view.members[member.name] = joined(self._view.members.get(member.name), member)
            if decided is Membership.NEW:
                self._view.joined_at.append(self._clock.monotonic())
        self._log(member, decided)
        return decided

    def _log(self, member: Member, decided: Membership) -> None:
        """A refused container asks again and again: the first refusal of an incarnation is a warning."""
        facts = {"container": member.name, "incarnation": member.incarnation}
        if decided is not Membership.REFUSED:
            log.info("container registered", **facts, membership=decided.value)
            self._refused.pop(member.name, None)
        elif self._refused.get(member.name) != member.incarnation:
            log.warning("container refused", **facts)
            self._refused[member.name] = member.incarnation

    def _answer(self, container: str, *, known: bool) -> HeartbeatAnswer:
        return HeartbeatAnswer(
            known=known,
            version=self._view.version,
            shard_count=self._view.sharding.count,
            selectors=self._view.sharding.selectors,
            lease_seconds=self._lease_seconds,
            shards=self._view.shards_in_answer(container) if known else {},
            commit_number=self._view.commit_number,
            unasked_stop=self._view.unasked_stop,
        )

    def _is_news(self, request: HeartbeatRequest) -> bool:
        """Whether the container dropped a shard that it still owns, or knows a newer epoch than this leader."""
        owned, last = self._view.shards_of(request.container), self._view.last_heartbeats[request.container]
        has_dropped = any(owned.get(shard) == epoch for shard, epoch in last.dropped.items())
        return has_dropped or max(request.held.values(), default=0) > self._view.version


def _member(request: HeartbeatRequest) -> Member:
    return Member(
        name=request.container,
        incarnation=request.incarnation,
        url=request.url,
        region=request.region,
        cpu_cores=request.capacity.cpu_cores,
        memory_bytes=request.capacity.memory_bytes,
        disk_bytes=request.capacity.disk_bytes,
        further_capacity=request.capacity.further,
        labels=request.labels,
    )
