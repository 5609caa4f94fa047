"""The address of the store for a role."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.control.errors import UserError
from penstock.store.address import connection_parameters
from penstock.store.roles import url_for


@pytest.mark.parametrize(
    ("url", "of_the_role"),
    [
        ("postgresql://ann:secret@db:5432/penstock", "postgresql://tm@db:5432/penstock"),
        ("postgresql://db/penstock", "postgresql://tm@db/penstock"),
        ("postgresql+psycopg://:p%40w@/x?host=/run", "postgresql+psycopg://tm@/x?host=/run"),
        (
            "postgresql://ann:a?b@a:5432,b:5433/penstock?connect_timeout=3",
            "postgresql://tm@a:5432,b:5433/penstock?connect_timeout=3",
        ),
        ("postgresql://ann@a,[::1]:5433/penstock", "postgresql://tm@a,[::1]:5433/penstock"),
        (
            "postgresql:///x?user=ann&password=a&ssl%70assword=b&host=/run&sslmode=require",
            "postgresql://tm@/x?host=/run&sslmode=require",
        ),
        ("postgresql://db/x?password=secret", "postgresql://tm@db/x"),
    ],
)
def test_a_role_has_the_same_servers_and_no_password(url: str, of_the_role: str) -> None:
    assert url_for("tm", url) == of_the_role
    own, theirs = connection_parameters(url), connection_parameters(of_the_role)
    assert {**_without_credentials(own), "user": "tm"} == theirs


def _without_credentials(parameters: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in parameters.items() if key != "user" and not key.endswith("password")}


def test_what_is_no_url_is_refused() -> None:
    with pytest.raises(UserError, match="postgresql://user@host/database"):
        url_for("tm", "host=db user=ann")
