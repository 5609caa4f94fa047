"""Texts of others become texts that the store and messages can carry."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from penstock.control.texts import clean, cleaned, cut, first_few, likely
from penstock.model.reports import TaskProgress, TaskReport, TaskState
from penstock.tasks.savepoint import SavedTask
from penstock.wire.host_tasks import HostTaskAnswer, HostTaskState

BAD = "12\x00\ud800x"
GOOD = "12\ufffd\ufffdx"


@pytest.mark.parametrize(("text", "expected"), [(BAD, GOOD), ("", ""), ("é\U0001f600\n\x01", "é\U0001f600\n\x01")])
def test_only_what_no_store_takes_is_replaced(text: str, expected: str) -> None:
    assert clean(text) == expected


def test_texts_inside_a_value_are_clean() -> None:
    assert cleaned({BAD: [BAD, (1, {"a": BAD})], "n": None}) == {GOOD: [GOOD, [1, {"a": GOOD}]], "n": None}


def test_what_a_container_reports_is_clean() -> None:
    progress = TaskProgress(watermark=BAD, input_problems={"malformed_records": BAD}, held_back_by=BAD)
    assert progress.watermark == progress.held_back_by == progress.input_problems["malformed_records"] == GOOD
    numbers = dict.fromkeys(("index", "revision", "generation", "restarts", "epoch"), 0)
    report = TaskReport(job="j", state=TaskState.CRASHED, error=BAD, **numbers)  # type: ignore[arg-type]
    assert report.error == GOOD
    assert SavedTask(index=0, batch=None, why=BAD).why == GOOD


def test_the_answer_of_a_host_task_is_clean() -> None:
    assert HostTaskAnswer(state=HostTaskState.FAILED, error=BAD).error == GOOD
    sent = HostTaskAnswer.model_validate_json(
        b'{"state": "failed", "error": "12\\u0000", "report": {"a": ["\\u0000"]}}'
    )
    assert (sent.error, sent.report) == ("12\ufffd", {"a": ["\ufffd"]})


@pytest.mark.parametrize(
    ("count", "separator", "expected"),
    [
        (1, ", ", "0"),
        (5, ", ", "0, 1, 2, 3, 4"),
        (7, ", ", "0, 1, 2, 3, 4 and 2 more"),
        (7, "; ", "0; 1; 2; 3; 4; and 2 more"),
    ],
)
def test_of_many_names_the_first_few_are_told(count: int, separator: str, expected: str) -> None:
    assert first_few([str(number) for number in range(count)], separator) == expected


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("rows 1234", 9, "rows 1234"),
        ("rows 1234 x", 9, "rows 1234 ..."),
        ("rows 1234 x", 8, "rows ..."),
        ("abcdef", 3, "abc ..."),
    ],
)
def test_a_text_is_cut_between_words(text: str, limit: int, expected: str) -> None:
    assert cut(text, limit) == expected


@pytest.mark.parametrize(
    ("name", "known", "told"),
    [
        ("flihgts", ["planes", "flights"], "do you mean flights? There are: flights, planes"),
        ("FLIGHT", ["Flights"], "do you mean Flights? There are: Flights"),
        ("moon", ["planes", "flights"], "there are: flights, planes"),
        ("moon", [], "there are none"),
        ("a" * 100, ["a" * 99], f"do you mean {'a' * 99}? There are: {'a' * 99}"),
        ("a" * 101, ["a" * 100], f"there are: {'a' * 100}"),
        ("x", "abcdefgh", "there are: a, b, c, d, e and 3 more"),
        ("n-7", [f"n-{n}" for n in range(201)], "there are: n-0, n-1, n-10, n-100, n-101 and 196 more"),
    ],
)
def test_an_unknown_name_is_told_with_those_that_it_may_mean(name: str, known: Collection[str], told: str) -> None:
    assert likely(name, known) == told
