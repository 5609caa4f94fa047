"""Signed statements of who calls."""

from __future__ import annotations

from hashlib import sha256

import pytest

from penstock.control.errors import Unauthenticated
from penstock.identity.roles import Caller, Role
from penstock.identity.statements import AHEAD_SECONDS, GOOD_SECONDS, Nonces, statement, verified

SECRET, OTHER = b"one" * 16, b"two" * 16
CALLER = Caller(Role.TASK_MANAGER, "c1")
NOW = 1_800_000_000.0
BODY = b'{"tasks": []}'


def signed(secret: bytes) -> str:
    return statement(secret, CALLER, "POST", "/v1/reports", BODY, nonce="n1", now=NOW)


GOOD = signed(SECRET)


def test_a_statement_says_who_calls() -> None:
    for now in (NOW + GOOD_SECONDS - 1, NOW - AHEAD_SECONDS + 1):
        assert verified((SECRET,), GOOD, "POST", "/v1/reports", now) == (CALLER, "n1", sha256(BODY).hexdigest())
    assert verified((OTHER, SECRET), GOOD, "POST", "/v1/reports", NOW).caller == CALLER
    assert SECRET.decode() not in GOOD


@pytest.mark.parametrize(
    ("text", "method", "target", "now"),
    [
        (GOOD, "GET", "/v1/reports", NOW),
        (GOOD, "POST", "/v1/reports?x=1", NOW),
        (GOOD, "POST", "/v1/heartbeats", NOW),
        (GOOD, "POST", "/v1/reports", NOW + GOOD_SECONDS + 1),
        (GOOD, "POST", "/v1/reports", NOW - AHEAD_SECONDS - 1),
        (GOOD.replace("c1", "c2"), "POST", "/v1/reports", NOW),
        (GOOD.replace("task_manager/c1", "shard_manager"), "POST", "/v1/reports", NOW),
        (GOOD.replace("n1", "n2"), "POST", "/v1/reports", NOW),
        (GOOD.replace(sha256(BODY).hexdigest(), sha256(b"").hexdigest()), "POST", "/v1/reports", NOW),
        (GOOD[:-1], "POST", "/v1/reports", NOW),
        (signed(OTHER), "POST", "/v1/reports", NOW),
        ("", "POST", "/v1/reports", NOW),
        ("task_manager/c1", "POST", "/v1/reports", NOW),
        ("task_manager/c1 nan x y z", "POST", "/v1/reports", NOW),
        ("\u00e9 1 2", "POST", "/v1/reports", NOW),
        ("x" * 100_000, "POST", "/v1/reports", NOW),
    ],
)
def test_any_other_statement_is_refused(text: str, method: str, target: str, now: float) -> None:
    with pytest.raises(Unauthenticated):
        verified((SECRET,), text, method, target, now)


def test_a_nonce_is_taken_once_while_its_statement_is_good() -> None:
    """1. Taken once. 2. Refused as long as its statement could be good. 3. Forgotten then: memory is bounded."""
    nonces = Nonces()
    nonces.take("n1", NOW)
    for now in (NOW, NOW + GOOD_SECONDS + AHEAD_SECONDS):
        with pytest.raises(Unauthenticated):
            nonces.take("n1", now)
    nonces.take("n2", NOW + GOOD_SECONDS + AHEAD_SECONDS + 1)
    nonces.take("n1", NOW + GOOD_SECONDS + AHEAD_SECONDS + 1)


def test_more_nonces_than_there_is_room_for_displace_the_oldest() -> None:
    nonces = Nonces(most=2)
    for nonce in ("n1", "n2", "n3"):
        nonces.take(nonce, NOW)
    nonces.take("n1", NOW)
    with pytest.raises(Unauthenticated):
        nonces.take("n3", NOW)
