"""The executor: asks without being waited for, and calls a silent container lost only after a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from penstock.control.errors import Conflict, Unavailable
from penstock.control.process import wait_until
from penstock.tasks.redistribution import RedistributionReport
from penstock.wire.redistributions import LOST, RedistributionAnswer, WorkState
from services.state_syncer.asks import Ask, key_of, request_of
from services.state_syncer.executor import ContainerExecutor
from services.state_syncer.progress import Done, Failed, Lost, Unanswered
from tests.unit.state_syncer.test_asks import PLAN, RUNNING

KEY = key_of("j", PLAN, 0)
ASK = Ask(KEY, "http://a", request_of("j", PLAN, RUNNING))
GOES_ON = RedistributionAnswer(state=WorkState.RUNNING)
DONE = RedistributionAnswer(state=WorkState.DONE, report=RedistributionReport(state_rows=3))


class ScriptedClient:
    """Answers as the test says; each call waits for its turn."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.urls: list[str] = []
        self.gate = threading.Semaphore(0)
        self.begun = 0

    def ask(self, url: str, request: Any, *, wait_seconds: float) -> RedistributionAnswer:
        self.begun += 1
        assert self.gate.acquire(timeout=10)
        self.urls.append(url)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]


class Bench:
    def __init__(self) -> None:
        self.client = ScriptedClient()
        self.seconds = 100.0
        self.news = threading.Semaphore(0)
        self.executor = ContainerExecutor(self.client, lambda: self.seconds, workers=1, lost_after_seconds=30)
        self.executor.on_news = self.news.release

    def once(self, answer: Any) -> Any:
        """One question with its answer; what is known then."""
        asked = len(self.client.urls) + 1
        self.client.answers.append(answer)
        self.executor.ask([ASK])
        self.client.gate.release()
        if answer is GOES_ON:
            wait_until(lambda: self.client.begun > len(self.client.urls) >= asked, 10, "the next question")
        else:
            self.executor._pool.submit(int).result(timeout=10)
        return self.executor.outcome(KEY)


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    for _ in range(10):
        bench.client.gate.release()
    bench.executor.close()


def test_asking_returns_at_once_and_nothing_is_asked_twice_at_the_same_time(bench: Bench) -> None:
    bench.client.answers = [DONE]
    bench.executor.ask([ASK])
    bench.executor.ask([ASK])
    assert bench.executor.outcome(KEY) == Unanswered()
    bench.client.gate.release()
    bench.executor._pool.submit(int).result(timeout=10)
    assert bench.client.urls == ["http://a"]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (GOES_ON, Unanswered()),
        (DONE, Done(RedistributionReport(state_rows=3))),
        (RedistributionAnswer(state=WorkState.FAILED, error="disk full"), Failed("disk full")),
        (RedistributionAnswer(state=WorkState.FAILED, error="died", error_kind=LOST), Lost("died")),
        (Conflict("used already"), Failed("used already")),
        (Unavailable("refused"), Unanswered()),
    ],
)
def test_what_an_answer_means(bench: Bench, answer: Any, outcome: Any) -> None:
    assert bench.once(answer) == outcome
    assert bench.news.acquire(blocking=False) is not isinstance(outcome, Unanswered)


def test_the_end_of_work_that_goes_on_is_waited_for_without_further_rounds(bench: Bench) -> None:
    bench.client.answers = [GOES_ON, GOES_ON, DONE]
    bench.executor.ask([ASK])
    for _ in range(3):
        bench.client.gate.release()
    assert bench.news.acquire(timeout=10)
    assert bench.executor.outcome(KEY) == Done(DONE.report)
    assert len(bench.client.urls) == 3


def test_what_is_over_is_not_asked_again(bench: Bench) -> None:
    bench.once(DONE)
    bench.executor.ask([ASK])
    assert bench.client.urls == ["http://a"]
    assert bench.executor.outcome(KEY) == Done(DONE.report)


def test_a_container_is_lost_after_a_time_of_silence_which_any_answer_ends(bench: Bench) -> None:
    """The silence after an answer begins with the question that follows it at once."""
    for passed, answer, lost in (
        (0, Unavailable("no"), False),
        (29, Unavailable("no"), False),
        (1, GOES_ON, False),
        (1, Unavailable("no"), False),
        (28, Unavailable("no"), False),
        (1, Unavailable("no"), True),
    ):
        bench.seconds += passed
        assert isinstance(bench.once(answer), Lost) is lost
    assert bench.news.acquire(timeout=10)


def test_what_is_no_longer_asked_for_is_forgotten_also_while_it_is_under_way(bench: Bench) -> None:
    bench.client.answers = [DONE]
    bench.executor.ask([ASK])
    bench.executor.ask([])
    bench.client.gate.release()
    bench.executor._pool.submit(int).result(timeout=10)
    assert bench.executor.outcome(KEY) == Unanswered()


def test_an_attempt_may_be_rejected_without_asking(bench: Bench) -> None:
    other = replace(ASK, key=KEY._replace(job="k"))
    bench.executor.reject(other.key, "cannot be read")
    assert bench.executor.outcome(other.key) == Failed("cannot be read")
