"""Webhooks get alerts that opened and ended: once each, also when the sender ends in between, on a real store."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from penstock.control.errors import Fenced, Unavailable
from penstock.model.alerts import AlertKind
from penstock.store import leases
from penstock.store.alerts import clear_alerts, open_subjects, raise_alert
from penstock.store.engine import transaction
from penstock.wire.alerts import SilenceWrite
from penstock.wire.job_client import JobClient
from services.job_service.notify.loop import LOOP, Notifications
from services.job_service.notify.messages import FAILING_ATTEMPTS, Links, Request
from services.job_service.notify.sender import Sender
from services.job_service.notify.targets import Shape, Target
from services.job_service.store.notifications import MOST_MESSAGES, After, record_due
from tests.support.control.clock import FakeClock
from tests.support.job_service.service import RunningJobService
from tests.support.job_service.webhook import Webhook, webhook
from tests.support.state_syncer.cell import Killed, depose, elect

KIND = AlertKind.TASK_CRASHING


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook() as found:
        yield found


class World:
    """A leader of the loop, and alerts that open and end."""

    def __init__(self, service: RunningJobService, *targets: Target, gather_seconds: float = 0.0) -> None:
        self.engine = service.engine
        self.targets = targets
        self.gather_seconds = gather_seconds
        self.clock = FakeClock()
        self.leaders = 0
        self.begin()

    def begin(self, send: Callable[[Request], None] | None = None) -> None:
        """Another process leads."""
        depose(self.engine)
        self.leaders += 1
        self.epoch = elect(self.engine, f"leader-{self.leaders}", loop=LOOP)
        sender = Sender().send if send is None else send
        self.loop = Notifications(
            self.engine, self.clock, self.targets, sender, gather_seconds=self.gather_seconds, links=Links()
        )

    def round(self) -> None:
        self.loop.round(self.epoch)

    def open(self, *subjects: str, kind: AlertKind = KIND) -> None:
        with transaction(self.engine) as connection:
            for subject in subjects:
                raise_alert(connection, kind, subject, f"{subject} is ill")

    def end(self, *subjects: str) -> None:
        with transaction(self.engine) as connection:
            clear_alerts(connection, KIND, subjects)

    def failing(self) -> set[str]:
        with transaction(self.engine) as connection:
            return open_subjects(connection, AlertKind.NOTIFICATIONS_FAILING)

    def do(self, sql: str) -> None:
        with transaction(self.engine) as connection:
            connection.execute(text(sql))

    def next_attempt(self) -> None:
        """The wait after a failure is over."""
        self.do("UPDATE notifications SET next_attempt_at = now()")
        self.round()


def target(hook: Webhook, **more: Any) -> Target:
    return Target(**({"name": "pager", "shape": Shape.JSON, "url": SecretStr(hook.url)} | more))


def test_alerts_are_told_when_they_open_and_when_they_end(service: RunningJobService, hook: Webhook) -> None:
    """1. Two open: one message. 2. They are raised again: none. 3. One ends, another opens: one message, ends first. 4.
    It opens once more: that is told, too."""
    world = World(service, target(hook, secret=SecretStr("a secret of the tests")))
    world.open("a", "b")
    world.round()
    world.open("a", "b")
    world.round()
    assert [len(request.json["alerts"]) for request in hook.received] == [2]
    assert hook.received[0].signature is not None
    world.end("a")
    world.open("c")
    world.round()
    world.open("a")
    world.round()
    first = [("opened", "a"), ("opened", "b")]
    assert hook.events() == [*first, ("resolved", "a"), ("opened", "c"), ("opened", "a")]
    assert len({request.delivery for request in hook.received}) == 3


def test_what_ends_soon_or_is_silenced_is_not_told(
    service: RunningJobService, client: JobClient, hook: Webhook
) -> None:
    """1. An alert is younger than the time for which alerts are gathered, and ends. 2. A silence leaves one out, until
    it ends. 3. Another kind than the target's is never told."""
    world = World(service, target(hook, kinds=(KIND,)), gather_seconds=60.0)
    world.open("a")
    world.round()
    world.end("a")
    silence = client.silence(SilenceWrite(kind=None, subject="b*", reason="known", expires_in_seconds=600))
    world.open("b1")
    world.open("b1", kind=AlertKind.JOB_LAGGING)
    world.do("UPDATE alerts SET raised_at = raised_at - interval '61 s'")
    world.round()
    assert hook.received == []
    client.end_silence(silence.id)
    world.round()
    assert hook.events() == [("opened", "b1")]


def test_a_target_that_fails_gets_the_same_message_later_and_hinders_no_other(
    service: RunningJobService, hook: Webhook
) -> None:
    """1. The pager answers 503, the chat gets its message. 2. Before its time the pager gets nothing. 3. After five
    attempts there is an alert. 4. It answers: it gets what it missed, in order, and the alert ends."""
    with webhook() as chat:
        world = World(service, target(hook), target(chat, name="chat", shape=Shape.SLACK))
        hook.status = 503
        world.open("a")
        world.round()
        world.round()
        assert (len(hook.received), len(chat.received)) == (1, 1)
        assert (
            chat.received[0]
            .json["text"]
            .endswith("task_crashing a: a is ill (what to do: services/ALERTS.md#task_crashing)")
        )
        world.end("a")
        for _ in range(FAILING_ATTEMPTS - 1):
            world.next_attempt()
        world.clock.seconds += 61
        world.round()
        assert world.failing() == {"pager"}
        assert {(request.delivery, request.body) for request in hook.received} == {
            (hook.received[0].delivery, hook.received[0].body)
        }
        hook.status = 204
        hook.received.clear()
        world.next_attempt()
        world.clock.seconds += 61
        world.round()
        assert hook.events()[:2] == [("opened", "a"), ("resolved", "a")]
        assert world.failing() == set()


def test_a_message_is_given_up_after_a_day_and_what_is_still_open_goes_into_the_next(
    service: RunningJobService, hook: Webhook
) -> None:
    """One of its two alerts has ended meanwhile: that is told, which hurts nobody who never heard of it."""
    world = World(service, target(hook))
    hook.status = 400
    world.open("a", "ended")
    world.round()
    world.end("ended")
    world.do("UPDATE notifications SET created_at = created_at - interval '25 hours'")
    world.next_attempt()
    hook.status = 200
    hook.received.clear()
    world.open("b")
    world.round()
    assert hook.events() == [("resolved", "ended"), ("opened", "a"), ("opened", "b")]


def test_a_target_that_is_not_there_for_a_moment_is_told_of_what_is_open(
    service: RunningJobService, hook: Webhook
) -> None:
    """Two Job Services have different settings, as in a rolling restart: the one without the target leads a while."""
    world = World(service, target(hook))
    hook.status = 503
    world.open("a", "b")
    world.round()
    world.targets = ()
    world.begin()
    world.round()
    world.end("b")
    hook.status = 200
    hook.received.clear()
    world.targets = (target(hook),)
    world.begin()
    world.round()
    assert hook.events() == [("opened", "a")]
    world.end("a")
    world.round()
    assert hook.events() == [("opened", "a"), ("resolved", "a")]


def test_what_is_due_is_recorded_a_message_at_a_time(service: RunningJobService, hook: Webhook) -> None:
    """A leader that dies between two messages leaves the first; the next one records the rest, each alert once."""
    world = World(service, target(hook))
    world.open(*(f"s{number:03}" for number in range(2 * MOST_MESSAGES + 5)))
    with transaction(world.engine) as connection:
        after = record_due(connection, "pager", [], timedelta(0), After())
    assert after is not None
    assert after.resolved == 0
    world.round()
    assert [len(request.json["alerts"]) for request in hook.received] == [MOST_MESSAGES, MOST_MESSAGES, 5]
    assert len(set(hook.events())) == 2 * MOST_MESSAGES + 5


@pytest.mark.parametrize(("status", "told"), [("200 OK", None), ("500 No", "HTTP 500: x")])
def test_an_answer_without_end_holds_up_nothing(status: str, told: str | None) -> None:
    """Only the status counts; of an error the begin is shown that comes at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sending = Thread(target=_answer_without_end, args=(server, status))
        sending.start()
        request = Request(f"http://127.0.0.1:{server.getsockname()[1]}/", {}, b"{}")
        try:
            if told is None:
                Sender(timeout_seconds=30.0).send(request)
            else:
                with pytest.raises(Unavailable, match=f"^{told}$"):
                    Sender(timeout_seconds=30.0).send(request)
        finally:
            sending.join(20)
    assert not sending.is_alive()


def _answer_without_end(server: socket.socket, status: str) -> None:
    """Until the client has gone."""
    connection, _ = server.accept()
    with connection:
        while b"{}" not in connection.recv(4096):
            pass
        connection.sendall(f"HTTP/1.1 {status}\r\n\r\nx".encode())
        connection.settimeout(20)
        assert connection.recv(1) == b""


def test_no_redirect_is_followed(service: RunningJobService, hook: Webhook) -> None:
    world = World(service, target(hook))
    hook.status = 307
    world.open("a")
    world.round()
    assert len(hook.received) == 1


def test_a_sender_that_ends_before_the_answer_sends_the_same_again(service: RunningJobService, hook: Webhook) -> None:
    """1. It is killed after the message has arrived. 2. Meanwhile another alert opens. 3. The next leader sends the
    same message under the same name, and then the other: whoever knows the names has each once."""
    world = World(service, target(hook))
    world.open("a")

    def killed_while_sending(request: Request) -> None:
        Sender().send(request)
        raise Killed

    world.begin(killed_while_sending)
    with pytest.raises(Killed):
        world.round()
    world.open("b")
    world.begin()
    world.round()
    first, again, other = hook.received
    assert (first.delivery, first.body) == (again.delivery, again.body)
    assert other.delivery != first.delivery
    by_name = {request.delivery: request for request in hook.received}
    assert [alert["subject"] for request in by_name.values() for alert in request.json["alerts"]] == ["a", "b"]


def test_a_former_leader_sends_nothing(service: RunningJobService, hook: Webhook) -> None:
    world = World(service, target(hook))
    world.open("a")
    former, epoch = world.loop, world.epoch
    world.begin()
    with pytest.raises(Fenced):
        former.round(epoch)
    assert hook.received == []


def test_a_target_that_is_taken_away_is_forgotten(service: RunningJobService, hook: Webhook) -> None:
    """What was to be sent to it is ended, so that it is no reason for an alert."""
    world = World(service, target(hook))
    hook.status = 500
    world.open("a")
    world.round()
    world.targets = ()
    world.begin()
    world.round()
    with transaction(world.engine) as connection:
        rows = connection.execute(text("SELECT error FROM notifications WHERE ended_at IS NOT NULL")).scalars()
        assert list(rows) == ["the target is gone"]
        assert leases.read(connection, LOOP) is not None


def test_a_burst_is_told_in_messages_of_a_hundred(service: RunningJobService, hook: Webhook) -> None:
    world = World(service, target(hook))
    world.open(*(f"job-{number:03}" for number in range(150)))
    world.round()
    assert [len(request.json["alerts"]) for request in hook.received] == [100, 50]
    assert len(set(hook.events())) == 150


def test_the_address_of_a_target_is_in_no_error(service: RunningJobService) -> None:
    """That of Slack is a secret."""
    gone = Target(name="pager", shape=Shape.SLACK, url=SecretStr("http://127.0.0.1:9/services/T0/secret"))
    world = World(service, gone)
    world.open("a")
    world.round()
    with transaction(world.engine) as connection:
        (error,) = connection.execute(text("SELECT error FROM notifications")).scalars()
    assert error.startswith("no answer: ")
    assert "secret" not in error
