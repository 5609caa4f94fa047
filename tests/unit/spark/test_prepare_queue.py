"""In which order a host prepares tasks, and that one that hangs holds up no other. Without Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from structlog.testing import capture_logs

from penstock.control.process import wait_until
from penstock.spark.host.preparing import ALONE_SECONDS, MOST_AT_ONCE, MOST_SECONDS, REMEDY, PrepareQueue
from penstock.tasks.spec import TaskSpec
from tests.support.control.clock import FakeClock
from tests.support.task_manager import world

READY, NOT = {"prepared": True}, {"prepared": False}


class Preparing:
    """A queue whose work lasts until it is released. `begun`, `given_up` and `answers`: what was seen, in order."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.begun: list[str] = []
        self.given_up: list[str] = []
        self.answers: dict[str, Any] = {}
        self._release: dict[str, threading.Event] = {}
        self._ended: set[str] = set()
        self.queue = PrepareQueue(self.clock, lambda spec: self.given_up.append(spec.task_id))

    def submit(self, *names: str, generation: int = 1) -> None:
        """Tasks by `job/index`."""
        for name in names:
            job, _, index = name.partition("/")
            spec = world.spec(job, int(index), generation=generation, task_count=4)
            self._release.setdefault(name, threading.Event())
            self.queue.submit(spec, lambda given_up, spec=spec: self._work(spec), self._done(name))

    def end(self, *names: str) -> None:
        """Their work ends."""
        for name in names:
            self._release[name].set()
            wait_until(lambda name=name: name in self._ended, 10, f"the end of {name}")  # type: ignore[misc]

    def pass_seconds(self, seconds: float) -> None:
        self.clock.seconds += seconds
        self.queue.proceed()

    def wait_begun(self, *names: str) -> None:
        wait_until(lambda: self.begun == list(names), 10, f"{names} to begin")

    def close(self) -> None:
        for each in self._release.values():
            each.set()
        self.queue.end()

    def _work(self, spec: TaskSpec) -> dict[str, Any]:
        self.begun.append(spec.task_id)
        self._release[spec.task_id].wait(10)
        self._ended.add(spec.task_id)
        return READY

    def _done(self, name: str) -> Any:
        def answer(future: Future[Any]) -> None:
            assert name not in self.answers
            self.answers[name] = future.exception() or future.result()

        return answer


@pytest.fixture
def host() -> Iterator[Preparing]:
    made = Preparing()
    yield made
    made.close()


def test_one_is_prepared_at_a_time_in_order(host: Preparing) -> None:
    host.submit("a/0", "b/0")
    host.wait_begun("a/0")
    host.end("a/0")
    host.wait_begun("a/0", "b/0")
    assert host.answers == {"a/0": READY}


def test_other_jobs_do_not_wait_for_one_that_takes_long(host: Preparing) -> None:
    """1. The tasks of other jobs begin beside it, its own do not. 2. It ends well all the same."""
    host.submit("a/0", "a/1", "b/0")
    host.wait_begun("a/0")
    host.pass_seconds(ALONE_SECONDS)
    host.wait_begun("a/0", "b/0")
    host.end("a/0")
    host.end("b/0")
    host.wait_begun("a/0", "b/0", "a/1")
    assert host.given_up == []


def test_one_that_hangs_is_given_up_with_the_others_of_its_job(host: Preparing) -> None:
    """1. The job is named. 2. Other jobs are prepared. 3. Once it has ended, its job may be prepared again."""
    host.submit("a/0", "a/1")
    host.wait_begun("a/0")
    with capture_logs() as told:
        host.pass_seconds(MOST_SECONDS)
    assert (host.given_up, host.answers) == (["a/0"], {"a/0": NOT, "a/1": NOT})
    assert [(line["event"], line["task"]) for line in told] == [
        ("prepare given up", "a/0"),
        ("not prepared: another one hangs", "a/1"),
    ]
    host.submit("a/2", "b/0")
    host.wait_begun("a/0", "b/0")
    host.end("b/0", "a/0")
    wait_until(lambda: host.answers == {"a/0": NOT, "a/1": NOT, "a/2": NOT, "b/0": READY}, 10, "the answers")
    host.submit("a/3")
    host.wait_begun("a/0", "b/0", "a/3")


def test_no_more_than_so_many_may_hang(host: Preparing) -> None:
    """Once so many do, one line says what to do; again only after one has ended, and another one hangs."""
    hanging = [f"job-{number}/0" for number in range(MOST_AT_ONCE)]
    for number, name in enumerate(hanging):
        host.submit(name)
        host.wait_begun(*hanging[: number + 1])
        host.pass_seconds(ALONE_SECONDS)
    host.submit("other/0")
    assert "other/0" not in host.answers
    with capture_logs() as told:
        host.pass_seconds(MOST_SECONDS)
        host.submit("other/2")
    assert host.answers == dict.fromkeys([*hanging, "other/0", "other/2"], NOT)
    assert [(each["log_level"], each["tasks"], each["remedy"]) for each in told if "remedy" in each] == [
        ("warning", hanging, REMEDY)
    ]
    host.end(hanging[0])
    host.submit("other/1")
    host.wait_begun(*hanging, "other/1")
    with capture_logs() as told:
        host.pass_seconds(MOST_SECONDS)
    assert [each["tasks"] for each in told if "remedy" in each] == [[*hanging[1:], "other/1"]]


def test_what_is_not_wanted_any_more_is_answered_and_does_not_begin(host: Preparing) -> None:
    """Only that of the generation that is named; what it was told to give up is no job that hangs."""
    host.submit("a/0", "a/1", generation=2)
    host.wait_begun("a/0")
    host.queue.give_up("a/0", 1)
    assert host.answers == {}
    host.queue.give_up("a/1", 2)
    host.queue.give_up("a/0", 2)
    assert (host.answers, host.given_up) == ({"a/0": NOT, "a/1": NOT}, ["a/0"])
    host.submit("a/2", generation=3)
    host.end("a/0")
    host.wait_begun("a/0", "a/2")


def test_a_host_that_ends_prepares_nothing_more(host: Preparing) -> None:
    host.submit("a/0", "b/0")
    host.wait_begun("a/0")
    host.queue.end()
    host.submit("c/0")
    assert (host.answers, host.given_up) == ({"a/0": NOT, "b/0": NOT, "c/0": NOT}, ["a/0"])
    host.end("a/0")
    assert host.begun == ["a/0"]


def test_what_fails_is_told_and_the_next_one_begins(host: Preparing) -> None:
    def fail(given_up: threading.Event) -> dict[str, Any]:
        raise OSError("disk")

    host.queue.submit(world.spec("broken"), fail, host._done("broken/0"))
    host.submit("a/0")
    host.wait_begun("a/0")
    assert [str(host.answers["broken/0"])] == ["disk"]
