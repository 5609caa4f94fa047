"""Tells webhooks of alerts that opened and ended: a loop of its own, with a leader.

A round records what is to be sent, in the transaction that notes which alerts are in it. Only then it sends. A process
that dies between sends the same message again, under the same name (`Penstock-Delivery`): at least once, and once for
a receiver that knows the names. The lease is the loop's own, so a slow webhook keeps no layer from its expiry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from prometheus_client import Counter
from sqlalchemy import Engine

from penstock.control.clock import Clock
from penstock.control.errors import Unavailable
from penstock.control.logs import logger
from penstock.control.period import Period
from penstock.model.alerts import AlertKind
from penstock.store import leases
from penstock.store.alerts import Found, replace_alerts
from penstock.store.cluster import read_facts
from services.job_service.notify.messages import Links, Request, request_of, wait_seconds
from services.job_service.notify.targets import Target
from services.job_service.store import notifications as store

log = logger(__name__)
LOOP = "job_service.notifications"
ROUND_SECONDS = 10.0
"""After this time a round sends nothing more, so that rounds come as others expect them."""
_TIDY_SECONDS = 60.0
_KEPT = timedelta(days=14)
_MOST_PURGED = 1_000
SENT = Counter("penstock_notifications", "Messages to webhooks by what became of an attempt.", ["target", "outcome"])


class Notifications:
    """The loop's round. `send`: sends a request once, and raises Unavailable unless it was taken."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        targets: Sequence[Target],
        send: Callable[[Request], None],
        *,
        gather_seconds: float,
        links: Links,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._targets = targets
        self._send = send
        self._gather = timedelta(seconds=gather_seconds)
        self._links = links
        self._tidying = Period(_TIDY_SECONDS)

    def round(self, leader_epoch: int) -> None:
        """Sends what is due, one message to each target in turn. A target that fails has no turn any more, and the
        round ends with its time. Raises Fenced, Unavailable of the store."""
        until = self._clock.monotonic() + ROUND_SECONDS
        for target in self._targets:
            self._record(leader_epoch, target)
        in_turn: Sequence[Target] = self._targets
        while in_turn and self._clock.monotonic() < until:
            in_turn = [target for target in in_turn if self._send_next(leader_epoch, target)]
        if self._tidying.is_due(self._clock.monotonic()):
            self._tidy(leader_epoch)
            self._tidying.done()

    def _record(self, leader_epoch: int, target: Target) -> None:
        """What is due, a transaction for each message: a cell may have 100,000 alerts at once."""
        kinds = [kind.value for kind in target.kinds]
        after: store.After | None = store.After()
        while after is not None:
            with leases.fenced(self._engine, LOOP, leader_epoch) as connection:
                after = store.record_due(connection, target.name, kinds, self._gather, after)

    def _send_next(self, leader_epoch: int, target: Target) -> bool:
        """Sends the oldest message; whether the next one may follow at once."""
        with leases.fenced(self._engine, LOOP, leader_epoch) as connection:
            found = store.next_open(connection, target.name)
            incarnation = read_facts(connection).incarnation
        if found is None or not found.is_due:
            return False
        request = request_of(
            target,
            found.messages,
            delivery=f"{incarnation}-{found.id}",
            links=self._links,
            now=self._clock.now(),
        )
        try:
            self._send(request)
        except Unavailable as error:
            self._failed(leader_epoch, target, found, error.detail)
            return False
        with leases.fenced(self._engine, LOOP, leader_epoch) as connection:
            store.note_delivered(connection, found.id)
        SENT.labels(target.name, "delivered").inc()
        return True

    def _failed(self, leader_epoch: int, target: Target, found: store.Notification, error: str) -> None:
        wait = wait_seconds(found.attempts + 1)
        with leases.fenced(self._engine, LOOP, leader_epoch) as connection:
            is_given_up = store.note_failed(connection, found.id, error, wait)
        SENT.labels(target.name, "given_up" if is_given_up else "failed").inc()
        log.warning("notification not sent", target=target.name, error=error, gave_up=is_given_up, wait_seconds=wait)

    def _tidy(self, leader_epoch: int) -> None:
        """Raises and clears the alerts about targets; ends and deletes what nobody needs."""
        with leases.fenced(self._engine, LOOP, leader_epoch) as connection:
            store.forget_others(connection, [target.name for target in self._targets])
            kind = AlertKind.NOTIFICATIONS_FAILING
            found: Found = {
                (kind, each.target): (_told(each), each._asdict()) for each in store.failing_targets(connection)
            }
            replace_alerts(connection, [kind], found)
            store.purge_notifications(connection, _KEPT, _MOST_PURGED)


def _told(failing: store.Failing) -> str:
    return f"{failing.attempts} attempts to tell {failing.target} of {failing.alerts} alerts failed: {failing.error}"
