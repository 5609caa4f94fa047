"""The address of the job store: any URL of libpq, with several hosts and TLS, made safe for a store that fails over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from penstock.control.errors import UserError

_SCHEMES = ("postgres", "postgresql")
_PRIMARY = ("read-write", "primary")
_DEFAULTS: Mapping[str, Any] = {
    "connect_timeout": 5,
    "client_encoding": "utf8",  # whatever the database is of: `migrate` refuses another one in words
    # A machine that vanishes closes no connection. Without these limits the client would wait for hours, not for 15 s.
    "keepalives_idle": 6,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


def libpq_url(url: str) -> str:
    """The same URL in the plain form that libpq takes."""
    scheme, _, rest = url.partition("://")
    return f"postgresql://{rest}" if scheme.split("+")[0] in _SCHEMES else url


def connection_parameters(url: str) -> dict[str, Any]:
    """What libpq is given for every connection to the store: the parameters of `url`, and these defaults.

    A connection is only taken on a server that takes writes: a replica's rows may be older than rows that were read
    before. Of several hosts (`postgresql://a:5432,b:5432/penstock`) the one that takes writes is found at each connect.
    Raises UserError for what is no address of Postgres, and for one that asks for another kind of server.
    """
    try:
        given = conninfo_to_dict(libpq_url(url))
    except psycopg.ProgrammingError as error:
        raise UserError("write it as postgresql://user@host/database", field="database_url", rule="url") from error
    wanted = given.get("target_session_attrs", "read-write")
    if wanted not in _PRIMARY:
        raise UserError(
            f"target_session_attrs={wanted} would read from replicas, whose rows may be old: leave it out",
            field="database_url",
            rule="primary",
        )
    return {**_DEFAULTS, **given, "target_session_attrs": "read-write"}


def with_options(parameters: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with settings of the server that hold for the whole session, after those that the URL has."""
    ours = " ".join(f"-c {name}={value}" for name, value in settings.items())
    return {**parameters, "options": f"{parameters.get('options') or ''} {ours}".strip()}
