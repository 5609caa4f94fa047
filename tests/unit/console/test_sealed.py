"""What a browser keeps, and what it can do with it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from services.console.sealed import Seal, Session

NOW = datetime(2026, 11, 25, tzinfo=UTC)
LIFETIME = timedelta(hours=12)
SESSION = Session(nonce="n", token="secret-token", name="ann", role="oncall", layers=("oncall", "rollback"))


@pytest.fixture
def seal() -> Seal:
    return Seal(b"key", LIFETIME)


def test_a_session_is_opened_as_it_was_closed_until_its_time_is_over(seal: Seal) -> None:
    cookie = seal.close(SESSION, NOW)
    assert seal.open(cookie, NOW) == seal.open(cookie, NOW + LIFETIME) == SESSION
    assert seal.open(cookie, NOW + LIFETIME + timedelta(seconds=1)) is None


def test_a_cookie_says_nothing_and_cannot_be_changed(seal: Seal) -> None:
    cookie = seal.close(SESSION, NOW)
    assert "secret-token" not in cookie
    assert "ann" not in cookie
    middle = len(cookie) // 2
    other = "A" if cookie[middle] != "A" else "B"
    assert seal.open(cookie[:middle] + other + cookie[middle + 1 :], NOW) is None
    for wrong in (None, "", "x", cookie[:-5], "A" + cookie, "ü"):
        assert seal.open(wrong, NOW) is None


def test_another_key_opens_nothing(seal: Seal) -> None:
    assert Seal(b"other", LIFETIME).open(seal.close(SESSION, NOW), NOW) is None


def test_the_token_of_a_form_is_of_one_session(seal: Seal) -> None:
    token = seal.form_token("n")
    assert seal.is_form_token(token, "n")
    assert not seal.is_form_token(token, "m")
    assert not seal.is_form_token("", "n")
    assert not seal.is_form_token("ü", "n")
    assert not Seal(b"other", LIFETIME).is_form_token(token, "n")


@pytest.mark.parametrize(
    ("role", "layers", "operates", "writes"),
    [
        ("reader", (), False, False),
        ("scaler", ("scaler",), False, True),
        ("oncall", ("oncall",), True, True),
        ("admin", ("*",), True, True),
        ("oncall", (), True, False),
    ],
)
def test_what_is_shown_to_a_role(role: str, layers: tuple[str, ...], operates: bool, writes: bool) -> None:
    session = Session.model_validate({"nonce": "n", "token": "t", "name": "a", "role": role, "layers": layers})
    assert (session.may_operate, session.may_write) == (operates, writes)
    assert session.may_write_layer("scaler") == ("scaler" in layers or "*" in layers)
