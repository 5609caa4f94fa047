"""How long an alert about a topic stays, from what is known of its tasks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.model.alerts import AlertKind
from services.state_syncer.inputs.decide import Idle, InputReports, OpenAlert, alerts_of

KEY = (AlertKind.INPUT_UNREADABLE, "a")
OPEN = OpenAlert("a", "task 0: there is no topic t (and 1 more task)", [0, 1])
GONE = InputReports("a", "input_unreadable", 1, [1], "there is no topic t")


def idle(index: int, crashes: int = 0, *, names_topic: bool = False, job: str = "a") -> Idle:
    return Idle(job, index, crashes, names_topic)


@pytest.mark.parametrize(
    ("tasks", "kept"),
    [
        ([], None),
        ([idle(1)], [1]),
        ([idle(0), idle(1)], [0, 1]),
        ([idle(2)], None),
        ([idle(1, job="b")], None),
        ([idle(1, 1)], [1]),
        ([idle(1, 3)], None),
        ([idle(1, 3, names_topic=True)], [1]),
        ([idle(2, 9, names_topic=True)], None),
    ],
    ids=[
        "all run",
        "one waits for its start",
        "both wait",
        "one waits that never named the topic",
        "one of another job",
        "the topic ended it",
        "something else ends it again and again",
        "its start is refused for the topic",
        "a task that is told by its own report, if it is",
    ],
)
def test_an_alert_stays_for_the_tasks_that_it_is_about(tasks: Sequence[Idle], kept: list[int] | None) -> None:
    expected = {} if kept is None else {KEY: (OPEN.message, {"tasks": kept})}
    assert alerts_of([], [OPEN], tasks) == expected


def test_a_task_that_waits_is_named_beside_those_that_report() -> None:
    found = alerts_of([GONE], [OPEN], [idle(0)])
    assert found == {KEY: ("task 1: there is no topic t", {"tasks": [0, 1]})}


def test_a_task_that_waits_opens_no_alert() -> None:
    assert alerts_of([], [], [idle(0, 3, names_topic=True)]) == {}
