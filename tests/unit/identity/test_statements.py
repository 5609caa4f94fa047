"""Signed statements of who calls."""

from __future__ import annotations

import pytest

from penstock.control.errors import Unauthenticated
from penstock.identity.roles import Caller, Role
from penstock.identity.statements import GOOD_SECONDS, statement, verified

SECRET, OTHER = b"one" * 16, b"two" * 16
CALLER = Caller(Role.TASK_MANAGER, "c1")
NOW = 1_800_000_000.0
GOOD = statement(SECRET, CALLER, "POST", "/v1/reports", NOW)


def test_a_statement_says_who_calls() -> None:
    assert verified((SECRET,), GOOD, "POST", "/v1/reports", NOW + GOOD_SECONDS - 1) == CALLER
    assert verified((OTHER, SECRET), GOOD, "POST", "/v1/reports", NOW) == CALLER
    assert SECRET.decode() not in GOOD


@pytest.mark.parametrize(
    ("text", "method", "target", "now"),
    [
        (GOOD, "GET", "/v1/reports", NOW),
        (GOOD, "POST", "/v1/reports?x=1", NOW),
        (GOOD, "POST", "/v1/heartbeats", NOW),
        (GOOD, "POST", "/v1/reports", NOW + GOOD_SECONDS + 1),
        (GOOD, "POST", "/v1/reports", NOW - GOOD_SECONDS - 1),
        (GOOD.replace("c1", "c2"), "POST", "/v1/reports", NOW),
        (GOOD.replace("task_manager/c1", "shard_manager"), "POST", "/v1/reports", NOW),
        (GOOD[:-1], "POST", "/v1/reports", NOW),
        (statement(OTHER, CALLER, "POST", "/v1/reports", NOW), "POST", "/v1/reports", NOW),
        ("", "POST", "/v1/reports", NOW),
        ("task_manager/c1", "POST", "/v1/reports", NOW),
        ("task_manager/c1 nan x", "POST", "/v1/reports", NOW),
        ("\u00e9 1 2", "POST", "/v1/reports", NOW),
        ("x" * 100_000, "POST", "/v1/reports", NOW),
    ],
)
def test_any_other_statement_is_refused(text: str, method: str, target: str, now: float) -> None:
    with pytest.raises(Unauthenticated):
        verified((SECRET,), text, method, target, now)
