"""`penstock init`: the job store and the first token."""

from __future__ import annotations

from typing import Annotated

import typer
from sqlalchemy.exc import ArgumentError, DBAPIError

from penstock.cli.errors import required
from penstock.cli.output import say
from penstock.cli.settings import CliSettings
from penstock.control import logs
from penstock.control.errors import TerminalError, UserError
from penstock.store.engine import connect, transaction
from penstock.store.migrate import upgrade
from penstock.store.roles import grant_roles
from penstock.store.tokens import create_first_admin


def init(
    database_url: Annotated[str | None, typer.Option(help="default: PENSTOCK_DATABASE_URL")] = None,
    roles: Annotated[bool, typer.Option("--roles", help="also make the roles of the store and grant them")] = False,
) -> None:
    """Create or upgrade the job store, and print the first admin token once."""
    logs.configure("cli", level="WARNING")
    url = database_url or CliSettings.read().database_url
    if url is None:
        raise required("name the job store: --database-url or PENSTOCK_DATABASE_URL", field="database_url")
    token = _prepare(url, roles=roles)
    say("the store is up to date")
    say(f"admin token, shown only now: {token}" if token else "an admin token exists already")


def _prepare(url: str, *, roles: bool) -> str | None:
    """The first admin token, when this call made it. With `roles` they are made, and have exactly their rights.

    Raises UserError when the URL is malformed, and TerminalError with the words of Postgres when it refuses.
    """
    try:
        upgrade(url)
        engine = connect(url)
        try:
            with transaction(engine) as connection:
                if roles:
                    grant_roles(connection)
                return create_first_admin(connection)
        finally:
            engine.dispose()
    except ArgumentError as error:
        raise UserError("write it as postgresql://user@host/database", field="database_url", rule="url") from error
    except DBAPIError as error:
        raise TerminalError(f"the store refused: {error.orig}") from error
