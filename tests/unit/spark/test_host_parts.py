"""The small parts of a host: lease, queues of commands, exit codes, settings that travel."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock.control.process import wait_until
from penstock.spark.channel import EVENTS, Reply
from penstock.spark.host.exits import ExitReason, exit_for_jvm, exit_reason
from penstock.spark.host.lease import LeaseWatch
from penstock.spark.host.pipes import MessageWriter
from penstock.spark.host.queues import TaskQueues
from penstock.spark.settings import SparkSettings
from penstock.spark.sinks.interrupts import interrupt_sink, interruptible


class ManualClock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds


class LeaseStory:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.expired = 0
        self.lease = LeaseWatch(self.clock, self._expire)

    def _expire(self) -> None:
        self.expired += 1


def test_without_a_lease_nothing_expires() -> None:
    story = LeaseStory()
    story.clock.seconds += 1e6
    assert not story.lease.check()


def test_a_renewed_lease_lasts_and_an_expired_one_ends_once() -> None:
    """1. Two leases. 2. The second runs out. 3. A late one comes: too late."""
    story = LeaseStory()
    assert story.lease.renew(40, None) == 40
    story.clock.seconds += 39
    assert story.lease.renew(40, None) == 40
    story.clock.seconds += 39.9
    assert not story.lease.check()
    story.clock.seconds += 0.1
    assert story.lease.check()
    assert story.lease.check()
    assert story.lease.renew(40, None) == 0
    assert story.expired == 1


def test_a_lease_counts_from_when_it_was_sent() -> None:
    story = LeaseStory()
    assert story.lease.renew(40, story.clock.seconds - 30) == 10
    story.clock.seconds += 10
    assert story.lease.check()


def test_a_renewal_that_waited_longer_than_it_lasts_expires_at_once() -> None:
    story = LeaseStory()
    story.lease.renew(40, None)
    assert story.lease.renew(40, story.clock.seconds - 50) == -10
    assert story.lease.check()


def test_a_first_lease_that_came_too_late_only_asks_for_a_fresh_one() -> None:
    """1. The host was long in coming up: its first lease is over. 2. No task may start. 3. A fresh one comes."""
    story = LeaseStory()
    assert story.lease.may_start()
    assert story.lease.renew(40, story.clock.seconds - 50) == -10
    assert not story.lease.check()
    assert not story.lease.may_start()
    assert story.lease.renew(40, story.clock.seconds - 1) == 39
    assert story.lease.may_start()


def test_a_lease_from_the_future_grants_no_more_than_its_length() -> None:
    story = LeaseStory()
    assert story.lease.renew(40, story.clock.seconds + 500) == 40


def test_commands_of_a_task_keep_their_order_while_others_run() -> None:
    """1. a's first command blocks. 2. b's command is done meanwhile. 3. a's second ran only after the first."""
    queues, go, order = TaskQueues(4), threading.Event(), []
    done: list[Future[Any]] = []
    queues.submit("a", lambda: go.wait(30) and order.append("a1"), done.append)
    queues.submit("a", lambda: order.append("a2"), done.append)
    queues.submit("b", lambda: order.append("b1"), done.append)
    wait_until(lambda: order == ["b1"], 10, "b")
    go.set()
    wait_until(lambda: len(done) == 3, 10, "all")
    assert order == ["b1", "a1", "a2"]


def test_urgent_work_waits_for_nothing_but_earlier_work_of_its_key() -> None:
    """1. The only thread is taken, by a start of a. 2. b is stopped meanwhile. 3. a is stopped after its start."""
    queues, go, order = TaskQueues(1), threading.Event(), []
    done: list[Future[Any]] = []
    queues.submit("a", lambda: go.wait(30) and order.append("a started"), done.append)
    queues.submit("a", lambda: order.append("a stopped"), done.append, urgent=True)
    queues.submit("b", lambda: order.append("b stopped"), done.append, urgent=True)
    wait_until(lambda: order == ["b stopped"], 10, "b")
    go.set()
    wait_until(lambda: len(done) == 3, 10, "all")
    assert order == ["b stopped", "a started", "a stopped"]


def test_a_sink_is_interrupted_while_it_waits_and_never_afterwards() -> None:
    interrupted: list[str] = []
    with interruptible("a/0", lambda: interrupted.append("a")), interruptible("b/0", lambda: interrupted.append("b")):
        interrupt_sink("a/0")
        assert interrupted == ["a"]
    interrupt_sink("a/0")
    interrupt_sink("b/0")
    assert interrupted == ["a"]


def test_a_command_that_fails_does_not_hold_up_the_next() -> None:
    queues, done = TaskQueues(2), []

    def fail() -> None:
        raise ValueError("no")

    queues.submit("a", fail, done.append)
    queues.submit("a", lambda: 5, done.append)
    wait_until(lambda: len(done) == 2, 10, "both")
    assert isinstance(done[0].exception(), ValueError)
    assert done[1].result() == 5


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        *((int(reason), reason) for reason in ExitReason),
        (-9, ExitReason.KILLED),
        (70, ExitReason.CRASHED),
    ],
)
def test_exit_reason(code: int, reason: ExitReason) -> None:
    assert exit_reason(code) is reason


@pytest.mark.parametrize(
    ("code", "end"),
    [
        (3, ExitReason.OUT_OF_MEMORY),
        (52, ExitReason.OUT_OF_MEMORY),
        (86, ExitReason.LEASE_LOST),
        (-9, ExitReason.JVM_DIED),
        (1, ExitReason.JVM_DIED),
    ],
)
def test_end_of_the_jvm(code: int, end: ExitReason) -> None:
    assert exit_for_jvm(code) is end


def test_events_are_written_whole_and_in_order() -> None:
    reader, writer = os.pipe()
    events = MessageWriter(writer, "events", lost=lambda: None)
    with os.fdopen(reader, "rb") as stream:
        for number in range(50):
            events.send(Reply(id=number, ok=True, result={"text": "x" * 3000}))
        replies = [EVENTS.validate_json(stream.readline()) for _ in range(50)]
    assert [reply.id for reply in replies if isinstance(reply, Reply)] == list(range(50))


def test_a_reader_that_is_gone_is_noticed() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    lost = threading.Event()
    MessageWriter(writer, "events", lost=lost.set).send(Reply(id=1, ok=True))
    assert lost.wait(10)


def test_settings_survive_the_journey_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = SparkSettings(
        checkpoint_root="/ck",
        path_roots=("/data", "s3a://lake"),
        packages_root=Path("/packages"),
        spark_conf={"spark.executor.memory": "512m"},
        heap_bytes=2**30,
        unlocked_checkpoints=True,
        log_format="json",
        log_level="ERROR",
    )
    for name, value in sent.to_environment().items():
        monkeypatch.setenv(name, value)
    assert SparkSettings() == sent  # type: ignore[call-arg]
