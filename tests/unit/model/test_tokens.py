"""What is warned of before the last admin token ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from penstock.model.tokens import TokenRow, ending_admin, usable_admins

NOW = datetime(2026, 11, 25, tzinfo=UTC)
WARN = timedelta(days=14)


def _token(name: str, days: float | None = None, *, role: str = "admin", revoked: bool = False) -> TokenRow:
    ends = None if days is None else NOW + timedelta(days=days)
    return TokenRow(name, role, ["*"], NOW, NOW if revoked else None, ends)


@pytest.mark.parametrize(
    ("tokens", "last"),
    [
        ([], None),
        ([_token("tool", 1, role="reader")], None),
        ([_token("a")], None),
        ([_token("a", 13), _token("b")], None),
        ([_token("a", 13), _token("b", 15)], None),
        ([_token("a", 13), _token("b", 14)], "b"),
        ([_token("a", 13), _token("b", revoked=True)], "a"),
        ([_token("a", 13), _token("b", -1), _token("c", role="reader")], "a"),
    ],
)
def test_the_admin_that_ends_last_is_warned_of(tokens: list[TokenRow], last: str | None) -> None:
    warning = ending_admin(tokens, NOW, WARN)
    assert (None if warning is None else warning.name) == last


@pytest.mark.parametrize("gone", [_token("a", 0), _token("a", -1), _token("a", revoked=True)])
def test_none_is_left(gone: TokenRow) -> None:
    assert usable_admins([gone], NOW) == []
    warning = ending_admin([gone, _token("tool", role="oncall")], NOW, WARN)
    assert warning is not None
    assert (warning.name, warning.expires_at) == (None, None)
    assert "init --recover" in warning.message
