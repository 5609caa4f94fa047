"""The small pure parts: cursors, strict JSON, access, settings, views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from penstock.control.errors import Forbidden, InvalidConfig
from penstock.tasks.shards import Sharding, shard_of
from services.job_service.access import Principal, require_layer, require_role
from services.job_service.cursors import Page, encode
from services.job_service.settings import JobServiceSettings
from services.job_service.strictjson import DEEPEST, MOST_VALUES, strict_json
from services.job_service.views import places


@given(st.text(alphabet=st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=100))
def test_a_cursor_carries_a_name(name: str) -> None:
    assert Page(encode(name), 1).after_name() == name


@given(st.integers(0, 2**62))
def test_a_cursor_carries_a_number(number: int) -> None:
    assert Page(encode(number), 1).after_number() == number


@pytest.mark.parametrize("cursor", ["", "!", "bnVsbA", "dHJ1ZQ", "é", encode(2**63), encode("a\x00")])
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    for decode in (Page.after_name, Page.after_number):
        with pytest.raises(InvalidConfig) as refused:
            decode(Page(cursor, 1))
        assert refused.value.field == "cursor"


def test_without_a_cursor_a_list_begins_at_the_beginning() -> None:
    assert (Page(None, 1).after_name(), Page(None, 1).after_number()) == ("", None)


@pytest.mark.parametrize(("count", "limit", "expected"), [(0, 2, None), (1, 2, None), (2, 2, encode(1))])
def test_only_a_full_page_is_followed(count: int, limit: int, expected: str | None) -> None:
    assert Page(None, limit).next(range(count), lambda row: row) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"a": [1, 2.5, "x", null, true]}', {"a": [1, 2.5, "x", None, True]}),
        (b"9223372036854775807", 2**63 - 1),
        (b"-9223372036854775808", -(2**63)),
        ('"é\U0001f600"'.encode(), "é\U0001f600"),
        (b'"\\\\u0000"', "\\u0000"),
        (b"[" * DEEPEST + b"]" * DEEPEST, None),
    ],
)
def test_json_that_can_be_kept(text: bytes, value: Any) -> None:
    found = strict_json(text)
    assert value is None or found == value


@pytest.mark.parametrize(
    "text",
    [
        b'"\\u0000"',
        b'{"\\u0000": 1}',
        b'["\\ud800"]',
        b"NaN",
        b"[Infinity]",
        b"-1e999",
        b"9223372036854775808",
        b"1" * 5000,
        b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1),
        b"[" * 200_000,
        b"\xff",
        b"",
        b"[" + b"1," * (MOST_VALUES + 1) + b"1]",
    ],
)
def test_json_that_cannot_be_kept(text: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        strict_json(text)


def test_commas_inside_texts_are_no_values() -> None:
    text = b'"' + b',\\"' * (MOST_VALUES + 1) + b'"'
    assert len(strict_json(text)) == 2 * (MOST_VALUES + 1)


@pytest.mark.parametrize(
    ("role", "layers", "layer", "allowed"),
    [
        ("oncall", ("oncall",), "oncall", True),
        ("oncall", ("oncall",), "base", False),
        ("admin", ("*",), "anything", True),
        ("admin", (), "base", False),
        ("reader", ("*",), "base", False),
    ],
)
def test_who_may_write_a_layer(role: str, layers: tuple[str, ...], layer: str, allowed: bool) -> None:
    assert _passes(lambda: require_layer(Principal("ann", role, layers), layer)) == allowed


def test_who_has_the_role() -> None:
    assert _passes(lambda: require_role(Principal("ann", "admin", ()), ("oncall", "admin")))
    assert not _passes(lambda: require_role(Principal("ann", "reader", ()), ("oncall", "admin")))


@pytest.mark.parametrize(
    ("host", "authentication", "allowed"),
    [
        ("127.0.0.1", False, True),
        ("::1", False, True),
        ("localhost", False, True),
        ("0.0.0.0", False, False),
        ("10.0.0.5", False, False),
        ("0.0.0.0", True, True),
    ],
)
def test_without_authentication_it_is_bound_to_this_machine_only(
    monkeypatch: pytest.MonkeyPatch, host: str, authentication: bool, allowed: bool
) -> None:
    monkeypatch.setenv("PENSTOCK_HOST", host)
    monkeypatch.setenv("PENSTOCK_AUTHENTICATION", str(authentication).lower())
    if allowed:
        assert JobServiceSettings().host == host
    else:
        with pytest.raises(ValidationError, match="authentication is off"):
            JobServiceSettings()


@dataclass
class RunningJob:
    config: dict[str, Any]
    stopping: bool = False


@dataclass
class Report:
    index: int


@pytest.mark.parametrize(
    ("running", "reported", "expected"),
    [
        (None, [], []),
        (RunningJob({"task_count": 2}), [], [(0, True), (1, True)]),
        (RunningJob({}), [3], [(0, True), (3, False)]),
        (RunningJob({"task_count": 2}, stopping=True), [1], [(1, False)]),
        (RunningJob({"task_count": 2, "desired_state": "stopped"}), [], []),
    ],
)
def test_which_tasks_there_are(
    running: RunningJob | None, reported: list[int], expected: list[tuple[int, bool]]
) -> None:
    found = places("etl", running, [Report(index) for index in reported], Sharding(64))
    assert [(place.number, place.expected) for place in found] == expected
    assert all(place.shard == shard_of(place.task, 64) for place in found)


def _passes(check: Any) -> bool:
    try:
        check()
    except Forbidden:
        return False
    return True
