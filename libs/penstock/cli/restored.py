"""`penstock restored`: after a restore of the job store, or a fail-over that lost commits."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy.exc import ArgumentError, DBAPIError

from penstock.cli.errors import required
from penstock.cli.output import say
from penstock.cli.settings import CliSettings
from penstock.control import logs
from penstock.control.errors import TerminalError, UserError
from penstock.store.engine import connect, transaction
from penstock.store.incarnation import GENERATIONS_RAISED, QUIET_SECONDS, Begun, begin_incarnation
from penstock.store.migrate import upgrade

_STATEMENT_SECONDS = 3600.0
_GENERATION = re.compile(r"g([1-9][0-9]*)")


def restored(
    reason: Annotated[str, typer.Option("--reason", "-r", help="why; recorded in the store")],
    database_url: Annotated[str | None, typer.Option(help="default: PENSTOCK_DATABASE_URL")] = None,
    checkpoints: Annotated[
        Path | None,
        typer.Option(
            exists=True, file_okay=False, help="folder of all checkpoints: generations on disk are not used twice"
        ),
    ] = None,
    quiet_seconds: Annotated[
        float, typer.Option(min=0, help="so long no service leads: leases of before the restore run out")
    ] = QUIET_SECONDS,
) -> None:
    """After a restore of the job store, or a fail-over that lost commits: let no number be used twice."""
    logs.configure("cli", level="WARNING")
    url = database_url or CliSettings.read().database_url
    if url is None:
        raise required("name the job store: --database-url or PENSTOCK_DATABASE_URL", field="database_url")
    on_disk = None if checkpoints is None else newest_generations(checkpoints)
    for line in _told(_begin(url, reason, quiet_seconds, on_disk), quiet_seconds, has_disk=on_disk is not None):
        say(line)


def newest_generations(root: Path) -> dict[str, int]:
    """The newest generation of each job by the folders `<root>/<job>/g<number>`."""
    found: dict[str, int] = {}
    for folder in root.glob("*/g*"):
        named = _GENERATION.fullmatch(folder.name)
        if named is not None:
            found[folder.parent.name] = max(found.get(folder.parent.name, 0), int(named[1]))
    return found


def _author() -> str:
    """The account's name; its number where it has none, as in many containers."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"account {os.getuid()}"


def _begin(url: str, reason: str, quiet_seconds: float, on_disk: dict[str, int] | None) -> Begun:
    """Raises UserError when the URL is malformed, and TerminalError with the words of Postgres when it refuses."""
    try:
        upgrade(url)
        engine = connect(url, statement_timeout_seconds=_STATEMENT_SECONDS)
        try:
            with transaction(engine) as connection:
                return begin_incarnation(
                    connection, author=_author(), reason=reason, quiet_seconds=quiet_seconds, on_disk=on_disk
                )
        finally:
            engine.dispose()
    except ArgumentError as error:
        raise UserError("write it as postgresql://user@host/database", field="database_url", rule="url") from error
    except DBAPIError as error:
        raise TerminalError(f"the store refused: {error.orig}") from error


def _told(begun: Begun, quiet_seconds: float, *, has_disk: bool) -> Iterator[str]:
    yield f"the store is incarnation {begun.incarnation} now; it was {begun.former}"
    yield f"raised: {', '.join(f'{name} to {value}' for name, value in sorted(begun.counters.items()))}"
    if not has_disk:
        yield f"raised: the generations of each job by {GENERATIONS_RAISED}, as no folder of checkpoints was named"
    for job, (runs, newest) in sorted(begun.behind.items()):
        yield f"{job} runs generation {runs}, and generation {newest} is on disk: see the runbook before it starts"
    for job in begun.unknown:
        yield f"{job} has checkpoints and is not in the store: it was made after the backup, and is lost"
    yield f"{begun.containers} containers join anew; tasks start in {quiet_seconds:g} s at the earliest"
