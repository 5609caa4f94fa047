"""The dispatcher: asks without being waited for, and calls a silent container lost only after a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from penstock.control.errors import Conflict, Unavailable
from penstock.control.process import wait_until
from penstock.tasks.host_task import POLICIES, HostTask
from penstock.tasks.redistribution import RedistributionReport
from penstock.wire.cluster import as_json
from penstock.wire.host_task_client import HostTaskClient
from penstock.wire.host_tasks import BROKEN, LOST, HostTaskAnswer, HostTaskState
from services.state_syncer.host_tasks.dispatcher import Dispatcher, WantedHostTasks
from services.state_syncer.host_tasks.outcomes import Attempt, Done, Failed, Lost, Unanswered
from services.state_syncer.host_tasks.plan_tasks import key_of, request_of
from tests.unit.state_syncer.test_plan_requests import PLAN, RUNNING

KEY = key_of("j", PLAN, 0)
ASK = Attempt(KEY, "http://a", request_of("j", PLAN, RUNNING))
REPORT = RedistributionReport(state_rows=3)
GOES_ON = HostTaskAnswer(state=HostTaskState.RUNNING)
TELLS = HostTaskAnswer(state=HostTaskState.RUNNING, progress="half of it")
DONE = HostTaskAnswer(state=HostTaskState.DONE, report=as_json(REPORT))


class ScriptedClient(HostTaskClient):
    """Answers as the test says; each call waits for its turn."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.urls: list[str] = []
        self.gate = threading.Semaphore(0)
        self.begun = 0
        self.tasks: list[HostTask] = []
        self.waits: list[float] = []
        self.cancelled: list[tuple[str, str, int]] = []

    def put(self, container: str | None, url: str, task: HostTask, *, wait_seconds: float) -> HostTaskAnswer:
        self.tasks.append(task)
        self.waits.append(wait_seconds)
        self.begun += 1
        assert self.gate.acquire(timeout=10)
        self.urls.append(url)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    def cancel(self, container: str | None, url: str, key: str, leader_epoch: int) -> None:
        self.cancelled.append((url, key, leader_epoch))
        if leader_epoch == 13:
            raise Unavailable("refused")


class Bench:
    def __init__(self) -> None:
        self.client = ScriptedClient()
        self.seconds = 100.0
        self.news = threading.Semaphore(0)
        self.dispatcher = Dispatcher(self.client, lambda: self.seconds, workers=1, lost_after_seconds=30)
        self.dispatcher.on_news = self.news.release
        self.tasks = WantedHostTasks(self.dispatcher)

    def once(self, answer: Any, leader_epoch: int = 7) -> Any:
        """One question with its answer; what is known then."""
        asked = len(self.client.urls) + 1
        self.client.answers.append(answer)
        self.tasks.want([ASK], leader_epoch)
        self.client.gate.release()
        if answer in (GOES_ON, TELLS):
            wait_until(lambda: self.client.begun > len(self.client.urls) >= asked, 10, "the next question")
        else:
            self.dispatcher.pool.submit(int).result(timeout=10)
        return self.tasks.outcome(KEY)


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    for _ in range(10):
        bench.client.gate.release()
    bench.dispatcher.close()


def test_asking_returns_at_once_and_nothing_is_asked_twice_at_the_same_time(bench: Bench) -> None:
    bench.client.answers = [DONE]
    bench.tasks.want([ASK], 7)
    bench.tasks.want([ASK], 7)
    assert bench.tasks.outcome(KEY) == Unanswered()
    bench.client.gate.release()
    bench.dispatcher.pool.submit(int).result(timeout=10)
    assert bench.client.urls == ["http://a"]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (GOES_ON, Unanswered()),
        (TELLS, Unanswered("half of it")),
        (DONE, Done(REPORT)),
        (HostTaskAnswer(state=HostTaskState.FAILED, error="disk full"), Failed("disk full")),
        (HostTaskAnswer(state=HostTaskState.FAILED, error="died", error_kind=LOST), Lost("died")),
        (HostTaskAnswer(state=HostTaskState.FAILED, error="no", error_kind=BROKEN), Failed("no", is_final=True)),
        (Conflict("used already"), Failed("used already")),
        (Unavailable("refused"), Unanswered()),
    ],
)
def test_what_an_answer_means(bench: Bench, answer: Any, outcome: Any) -> None:
    assert bench.once(answer) == outcome
    assert bench.news.acquire(blocking=False) is not isinstance(outcome, Unanswered)


def test_the_end_of_work_that_goes_on_is_waited_for_without_further_rounds(bench: Bench) -> None:
    bench.client.answers = [GOES_ON, GOES_ON, DONE]
    bench.tasks.want([ASK], 7)
    for _ in range(3):
        bench.client.gate.release()
    assert bench.news.acquire(timeout=10)
    assert bench.tasks.outcome(KEY) == Done(REPORT)
    assert len(bench.client.urls) == 3


def test_what_is_over_is_not_asked_again(bench: Bench) -> None:
    bench.once(DONE)
    bench.tasks.want([ASK], 7)
    assert bench.client.urls == ["http://a"]
    assert bench.tasks.outcome(KEY) == Done(REPORT)


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
    bench.tasks.want([ASK], 7)
    bench.tasks.want([], 7)
    bench.client.gate.release()
    bench.dispatcher.pool.submit(int).result(timeout=10)
    assert bench.tasks.outcome(KEY) == Unanswered()


def test_a_request_that_cannot_be_made_has_failed_without_asking(bench: Bench) -> None:
    other = replace(ASK, key=KEY._replace(job="k"), request=Failed("cannot be read"))
    for _ in range(2):
        bench.tasks.want([other], 7)
        assert bench.tasks.outcome(other.key) == Failed("cannot be read")
    assert bench.client.begun == 0


CANCELLED = ("http://a", "redistribute:j:7", 8)


def test_a_request_that_cannot_be_made_any_more_fails_alone(bench: Bench) -> None:
    assert bench.once(Unavailable("refused")) == Unanswered()
    bench.tasks.want([replace(ASK, request=Failed("no such field"))], 7)
    assert bench.tasks.outcome(KEY) == Failed("no such field")


def test_a_task_that_nobody_wants_any_more_is_cancelled_once_and_not_if_it_has_ended(bench: Bench) -> None:
    """1. It goes on and is wanted no more: its container is told, once. 2. One that is done is not cancelled."""
    bench.once(GOES_ON)
    for _ in range(2):
        bench.tasks.want([], 8)
    bench.client.answers.append(GOES_ON)
    bench.client.gate.release()
    bench.dispatcher.pool.submit(int).result(timeout=10)
    assert bench.client.cancelled == [CANCELLED]
    assert {task.leader_epoch for task in bench.client.tasks} == {7}
    bench.once(DONE)
    bench.tasks.want([], 8)
    bench.dispatcher.pool.submit(int).result(timeout=10)
    assert bench.client.cancelled == [CANCELLED]


def test_a_lost_container_is_told_unless_it_is_asked_again(bench: Bench) -> None:
    """1. Silence for too long. 2. The next attempt asks the same container for the same task: nothing is cancelled. 3.
    It asks another one: the first is told, and does not hear it."""
    again = replace(ASK, key=KEY._replace(losses=1))
    elsewhere = replace(again, key=again.key._replace(container="b"), url="http://b")
    for silent in (0, 31):
        bench.seconds += silent
        bench.once(Unavailable("no"))
    assert isinstance(bench.tasks.outcome(KEY), Lost)
    bench.client.answers += [Unavailable("no")] * 2
    for attempt in (again, elsewhere):
        bench.tasks.want([attempt], 13)
        bench.client.gate.release()
        bench.dispatcher.pool.submit(int).result(timeout=10)
    bench.dispatcher.pool.submit(int).result(timeout=10)
    assert bench.client.cancelled == [("http://a", "redistribute:j:7", 13)]


def test_each_part_says_for_itself_what_it_wants(bench: Bench) -> None:
    other = WantedHostTasks(bench.dispatcher)
    bench.once(DONE)
    other.want([], 7)
    assert bench.tasks.outcome(KEY) == Done(REPORT)


def test_a_report_that_cannot_be_read_is_a_failure(bench: Bench) -> None:
    outcome = bench.once(HostTaskAnswer(state=HostTaskState.DONE, report={"state_rows": "many"}))
    assert isinstance(outcome, Failed)


OLD_EPOCH = Conflict("leader epoch 5 is older than 6", field="leader_epoch", rule="newest")


def test_a_new_leader_epoch_begins_without_what_was_found_before(bench: Bench) -> None:
    """1. An attempt fails, or its container is silent. 2. This process leads again: the attempt is asked for anew."""
    assert bench.once(Conflict("no"), 5) == Failed("no")
    bench.tasks.want([ASK], 7)
    assert bench.tasks.outcome(KEY) == Unanswered()
    bench.client.answers.append(Unavailable("silent"))
    bench.client.gate.release()
    bench.dispatcher.pool.submit(int).result(timeout=10)
    bench.seconds += 1000
    assert bench.once(Unavailable("silent"), 9) == Unanswered(), "the silence begins with this leader's call"


def test_the_refusal_of_an_old_leader_is_no_outcome_and_ends_the_asking(bench: Bench) -> None:
    """1. Another process led meanwhile: nothing is known, and nobody asks on. 2. With a new epoch the task is done."""
    assert bench.once(OLD_EPOCH, 5) == Unanswered()
    assert bench.client.begun == 1
    assert bench.once(DONE, 7) == Done(REPORT)
    assert [task.leader_epoch for task in bench.client.tasks] == [5, 7]


def test_the_late_answer_to_an_older_leader_is_of_no_use(bench: Bench) -> None:
    bench.client.answers = [Conflict("late"), DONE]
    bench.tasks.want([ASK], 5)
    wait_until(lambda: bench.client.begun == 1, 10, "the first call")
    bench.tasks.want([ASK], 7)
    for _ in range(2):
        bench.client.gate.release()
    bench.dispatcher.pool.submit(int).result(timeout=10)
    assert bench.tasks.outcome(KEY) == Done(REPORT)


def test_a_task_that_does_not_end_is_lost_after_the_time_of_its_kind(bench: Bench) -> None:
    bench.once(GOES_ON)
    bench.seconds += POLICIES[KEY.kind].longest_seconds
    bench.client.answers.append(GOES_ON)
    bench.client.gate.release()
    assert bench.news.acquire(timeout=10)
    assert isinstance(bench.tasks.outcome(KEY), Lost)


def test_an_attempt_whose_container_is_gone_for_a_moment_is_neither_asked_nor_cancelled(bench: Bench) -> None:
    bench.once(Unavailable("no"))
    bench.tasks.want([replace(ASK, url="")], 7)
    bench.dispatcher.pool.submit(int).result(timeout=10)
    assert (bench.client.begun, bench.client.cancelled) == (1, [])
    assert bench.once(DONE) == Done(REPORT)


def test_first_calls_do_not_wait_and_go_before_those_that_do(bench: Bench) -> None:
    """1. A task goes on and its end is waited for. 2. Another attempt comes: it is asked for next, without a wait."""
    other = replace(ASK, key=KEY._replace(job="k"), url="http://b")
    bench.client.answers = [GOES_ON, GOES_ON, DONE, DONE]
    bench.tasks.want([ASK], 7)
    bench.client.gate.release()
    wait_until(lambda: bench.client.begun == 2, 10, "the second call")
    bench.tasks.want([ASK, other], 7)
    for _ in range(3):
        bench.client.gate.release()
    wait_until(lambda: len(bench.client.urls) == 4, 10, "all calls")
    assert bench.client.urls == ["http://a", "http://a", "http://b", "http://a"]
    assert bench.client.waits == [0.0, 1.0, 0.0, 1.0]
