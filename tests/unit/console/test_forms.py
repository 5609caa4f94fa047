"""What people type, and what is said beside the field when it is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.problems import Problem, refusal
from penstock.control.errors import Conflict, Forbidden, InvalidConfig, PenstockError, Unavailable, UserError
from services.console.views import forms
from services.console.views.forms import Errors


@pytest.mark.parametrize(
    ("text", "patch"),
    [
        ("task_count = 4", {"task_count": 4}),
        ("slo.max_lag_seconds=300\n\n# why\nowner = ann", {"slo": {"max_lag_seconds": 300}, "owner": "ann"}),
        ("slo.a = 1\nslo.b = true", {"slo": {"a": 1, "b": True}}),
        ("priority =", {"priority": None}),
        ("priority = null", {"priority": None}),
        ('container_labels = {"disk": "ssd"}', {"container_labels": {"disk": "ssd"}}),
        ("query.sql = SELECT a = b FROM t", {"query": {"sql": "SELECT a = b FROM t"}}),
        ('{"slo": {"max_lag_seconds": 1}}', {"slo": {"max_lag_seconds": 1}}),
    ],
)
def test_changes_are_lines_or_an_object(text: str, patch: dict[str, Any]) -> None:
    errors: Errors = {}
    assert (forms.changes(text, errors), errors) == (patch, {})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "field = value"),
        ("   \n# only a remark", "field = value"),
        ("task_count 4", "line 1"),
        ("a = 1\nb", "line 2"),
        ("a b = 1", "line 1"),
        ("a = 1\na = 2", "twice"),
        ("slo = 1\nslo.max_lag_seconds = 2", "value of its own"),
        ('{"a": 1, "a": 2}', "a"),
        ('{"a": NaN}', "NaN"),
        ('{"a": ', "JSON"),
        ("{" * 5000, "JSON"),
        ("priority = 1e999", "cannot be sent"),
        ('{"owner": "\\ud800"}', "cannot be sent"),
    ],
)
def test_what_is_no_change_is_told_beside_the_field(text: str, says: str) -> None:
    errors: Errors = {}
    assert forms.changes(text, errors) == {}
    assert errors.keys() == {"changes"}
    assert says in errors["changes"]


@pytest.mark.parametrize(("text", "expected"), [("", "default"), ("never", None), ("2h", 7200), (" 30m ", 1800)])
def test_ends(text: str, expected: object) -> None:
    errors: Errors = {}
    assert (forms.ends(text, errors), errors) == (expected, {})


@pytest.mark.parametrize("text", ["soon", "0h", "-1h", "1w"])
def test_what_is_no_time_is_told_beside_the_field(text: str) -> None:
    errors: Errors = {}
    forms.ends(text, errors)
    assert text in errors["ends"]


def test_a_time_of_many_digits_is_none() -> None:
    errors: Errors = {}
    forms.ends("9" * 5_000, errors)
    assert errors.keys() == {"ends"}


@pytest.mark.parametrize(
    ("key", "sent"), [("a1b2", "a1b2"), ("", None), ("ü", None), ("a\r\nX: y", None), ("a\n", None), ("x" * 201, None)]
)
def test_a_key_that_no_header_can_carry_is_left_out(key: str, sent: str | None) -> None:
    assert forms.idempotency_key({"idempotency_key": key}) == sent


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "x", "10001", "٣"])
def test_what_is_no_number_of_tasks_is_told_beside_the_field(text: str) -> None:
    errors: Errors = {}
    forms.task_count(text, errors)
    assert errors.keys() == {"task_count"}


def test_a_reason_is_needed() -> None:
    errors: Errors = {}
    assert forms.reason(" because ", errors) == "because"
    assert not errors
    for wrong in ("", "  ", "x" * 2001):
        errors = {}
        forms.reason(wrong, errors)
        assert errors.keys() == {"reason"}


@pytest.mark.parametrize("text", ["", "x", "-1", "1" * 19])
def test_a_number_that_the_page_made_must_be_one(text: str) -> None:
    with pytest.raises(UserError, match="open the page again"):
        forms.whole_number(text)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (InvalidConfig("too many", field="body.reason", rule="max"), {"reason": "too many (rule max)"}),
        (InvalidConfig("too many", field="task_count", rule="max"), {"changes": "too many (rule max)"}),
        (Forbidden("not you", rule="role"), {"form": "not you (rule role)"}),
        (Unavailable("nobody answers"), {"form": "nobody answers"}),
        (
            Conflict(
                "also ends b. Give no expiry (no `--for`; expires_in_seconds absent), or give the whole layer the "
                "expiry (`--whole-layer`; whole_layer true)",
                field="body.reason",
                rule="whole_layer",
            ),
            {
                "reason": "also ends b. Give no expiry, or give the whole layer the expiry: the page of the plan has a "
                "box for that (rule whole_layer)"
            },
        ),
        (
            refusal([Problem("a", "max", "a is too large"), Problem("b", "min", "b is too small")]),
            {"changes": "a is too large; b is too small (rule max)"},
        ),
    ],
)
def test_a_refusal_stands_beside_the_field_that_it_names(error: PenstockError, expected: Errors) -> None:
    assert forms.refused(error, {"reason": "reason"}, "changes") == expected


@pytest.mark.parametrize(("text", "is_good"), [("", True), (" before-v2 ", True), ("A B", False)])
def test_the_name_of_a_savepoint_is_checked_in_words(text: str, is_good: bool) -> None:
    errors: Errors = {}
    forms.savepoint_name(text, errors)
    assert ("name" not in errors) is is_good
    assert is_good or errors["name"].startswith("a savepoint's name")
