"""`penstock init`: the job store and the first token."""

from __future__ import annotations

from typing import Annotated

import typer
from sqlalchemy.exc import DBAPIError

from penstock.cli.arguments import Reason
from penstock.cli.errors import required
from penstock.cli.output import say
from penstock.cli.settings import CliSettings
from penstock.control import logs
from penstock.control.errors import TerminalError
from penstock.store.engine import connect, transaction
from penstock.store.migrate import upgrade
from penstock.store.roles import grant_roles
from penstock.store.tokens import create_first_admin, has_usable_admin, recover_admin


def init(
    database_url: Annotated[str | None, typer.Option(help="default: PENSTOCK_DATABASE_URL")] = None,
    roles: Annotated[bool, typer.Option("--roles", help="also make the roles of the store and grant them")] = False,
    recover: Annotated[
        bool, typer.Option("--recover", help="make a further admin token, when the others are lost")
    ] = False,
    reason: Reason = "",
) -> None:
    """Create or upgrade the job store, and print the first admin token once."""
    logs.configure("cli", level="WARNING")
    url = database_url or CliSettings.read().database_url
    if url is None:
        raise required("name the job store: --database-url or PENSTOCK_DATABASE_URL", field="database_url")
    token, usable = _prepare(url, recover, reason, roles=roles)
    say("the store is up to date")
    if token is not None:
        say(f"admin token, shown only now: {token}")
    elif usable:
        say("an admin token exists already; if it is lost, `penstock init --recover` makes another")
    else:
        say("no admin token can be used: all have expired or were revoked. `penstock init --recover` makes a new one")


def _prepare(url: str, recover: bool, reason: str, *, roles: bool) -> tuple[str | None, bool]:
    """The admin token, when this call made one; and whether one can be used. With `roles` they are made, and have
    exactly their rights.

    Raises UserError when the URL is refused, and TerminalError with the words of Postgres when it refuses.
    """
    try:
        upgrade(url)
        engine = connect(url)
        try:
            with transaction(engine) as connection:
                if roles:
                    grant_roles(connection)
                made = recover_admin(connection, reason) if recover else create_first_admin(connection)
                return made, has_usable_admin(connection)
        finally:
            engine.dispose()
    except DBAPIError as error:
        raise TerminalError(f"the store refused: {error.orig}") from error
