"""Colliding changes of a Delta table: tried again, in turn, until a limit or a stop."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from delta.exceptions import ConcurrentAppendException, ConcurrentTransactionException, MetadataChangedException

from penstock.control.errors import BrokenTask, Unavailable
from penstock.spark.sinks.delta_conflicts import ATTEMPTS, Stop, retry_conflicts

WAIT_S = 30


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that were waited, without waiting."""
    found: list[float] = []
    monkeypatch.setattr(Stop, "sleep", lambda _, seconds: found.append(seconds))
    return found


class Colliding:
    """A change that fails with each of `errors`, and then works."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)


def append() -> Exception:
    return ConcurrentAppendException("a concurrent MERGE added data")


def test_a_collision_is_tried_again(waits: list[float]) -> None:
    change = Colliding(append(), ConcurrentTransactionException("is there"), MetadataChangedException("changed"))
    retry_conflicts("/t", change)
    assert change.calls == 4
    assert max(waits) <= 5


def test_there_is_a_limit(waits: list[float]) -> None:
    change = Colliding(*(append() for _ in range(ATTEMPTS + 1)))
    with pytest.raises(Unavailable, match=f"changed by others in each of {ATTEMPTS} attempts .* MERGE added data"):
        retry_conflicts("/t", change)
    assert change.calls == ATTEMPTS


def test_other_errors_are_passed_on_and_the_table_is_free() -> None:
    with pytest.raises(BrokenTask):
        retry_conflicts("/t", Colliding(BrokenTask("null")))
    retry_conflicts("/t", Colliding())


def in_another_thread(path: str, body: Callable[[], None]) -> None:
    """Runs the body while another thread changes the table at `path`."""
    begun, go_on = Event(), Event()

    def change() -> None:
        begun.set()
        assert go_on.wait(WAIT_S)

    with ThreadPoolExecutor(1) as threads:
        changed = threads.submit(retry_conflicts, path, change)
        assert begun.wait(WAIT_S)
        try:
            body()
        finally:
            go_on.set()
        changed.result(WAIT_S)


def test_changes_of_one_table_take_turns_and_those_of_another_do_not_wait() -> None:
    turns: list[str] = []
    with ThreadPoolExecutor(1) as threads:

        def body() -> None:
            later = threads.submit(retry_conflicts, "/t", lambda: turns.append("second"))
            retry_conflicts("/other", lambda: turns.append("other"))
            assert not later.done()

        in_another_thread("/t", body)
    assert turns == ["other", "second"]


def test_a_stop_ends_the_wait_for_a_turn() -> None:
    stop = Stop()
    with ThreadPoolExecutor(1) as threads:

        def body() -> None:
            waiting = threads.submit(retry_conflicts, "/t", Colliding(), stop)
            stop.request()
            with pytest.raises(Unavailable, match="the task was stopped"):
                waiting.result(WAIT_S)

        in_another_thread("/t", body)


def test_a_stop_ends_the_wait_after_a_collision() -> None:
    stop = Stop()
    change = Colliding(append())
    stop.request()
    with pytest.raises(Unavailable, match="the task was stopped"):
        retry_conflicts("/t", change, stop)
