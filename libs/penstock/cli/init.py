"""`penstock init`: the job store, the identity of the cell, and the first token."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer
from sqlalchemy.exc import ArgumentError, DBAPIError

from penstock.cli.errors import required
from penstock.cli.output import say
from penstock.cli.parse import name_of
from penstock.cli.settings import CliSettings
from penstock.control import logs
from penstock.control.errors import TerminalError, UserError
from penstock.identity.folder import IdentityFolder
from penstock.store.engine import connect, transaction
from penstock.store.migrate import upgrade
from penstock.store.tokens import create_first_admin


def init(
    database_url: Annotated[str | None, typer.Option(help="default: PENSTOCK_DATABASE_URL")] = None,
    cell: Annotated[
        str,
        typer.Option(help="name of the cell, in its certificates; it cannot change later", callback=name_of("cell")),
    ] = "cell",
) -> None:
    """Create or upgrade the job store and the identity of the cell, and print the first admin token once."""
    logs.configure("cli", level="WARNING")
    url = database_url or CliSettings.read().database_url
    if url is None:
        raise required("name the job store: --database-url or PENSTOCK_DATABASE_URL", field="database_url")
    IdentityFolder(CliSettings.read().identity_folder()).create(cell, datetime.now(UTC))
    token = _prepare(url)
    say("the store is up to date")
    say(f"admin token, shown only now: {token}" if token else "an admin token exists already")


def _prepare(url: str) -> str | None:
    """The first admin token, when this call made it.

    Raises UserError when the URL is malformed, and TerminalError with the words of Postgres when it refuses.
    """
    try:
        upgrade(url)
        engine = connect(url)
        try:
            with transaction(engine) as connection:
                return create_first_admin(connection)
        finally:
            engine.dispose()
    except ArgumentError as error:
        raise UserError("write it as postgresql://user@host/database", field="database_url", rule="url") from error
    except DBAPIError as error:
        raise TerminalError(f"the store refused: {error.orig}") from error
