"""The address of the job store: what of a URL reaches libpq."""

from __future__ import annotations

import pytest

from penstock.control.errors import UserError
from penstock.store.address import connection_parameters, with_options

TLS = "sslmode=verify-full&sslrootcert=/ca.pem&sslcert=/me.pem&sslkey=/me.key"


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_hosts_and_tls_reach_libpq(scheme: str) -> None:
    found = connection_parameters(f"{scheme}://me@a:1,b:2/penstock?{TLS}&connect_timeout=9")
    assert (found["host"], found["port"], found["dbname"], found["user"]) == ("a,b", "1,2", "penstock", "me")
    assert (found["sslmode"], found["sslrootcert"]) == ("verify-full", "/ca.pem")
    assert (found["sslcert"], found["sslkey"]) == ("/me.pem", "/me.key")
    assert (found["connect_timeout"], found["target_session_attrs"]) == ("9", "read-write")


def test_options_of_the_url_stay() -> None:
    given = connection_parameters("postgresql://a/penstock?options=-c%20search_path%3Dx")
    assert with_options(given, {"timezone": "UTC"})["options"] == "-c search_path=x -c timezone=UTC"


@pytest.mark.parametrize("asked", ["any", "standby", "prefer-standby", "read-only"])
def test_an_address_of_replicas_is_refused(asked: str) -> None:
    with pytest.raises(UserError, match="leave it out") as refused:
        connection_parameters(f"postgresql://a/penstock?target_session_attrs={asked}")
    assert refused.value.field == "database_url"


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(UserError, match="postgresql://user@host/database"):
        connection_parameters("no address")
