"""`penstock certificates`: by which the processes of a cell know each other. Works on files, not on a service."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.arguments import AsJson
from penstock.cli.output import say, show_data, table
from penstock.cli.settings import CliSettings
from penstock.control.errors import UserError
from penstock.identity.authority import CERTIFICATE_DAYS
from penstock.identity.folder import AUTHORITY, IdentityFolder
from penstock.identity.records import Record
from penstock.identity.roles import Caller, Role

Days = Annotated[float, typer.Option(min=0.01, help="days until the certificate expires")]


def issue(
    role: Annotated[Role, typer.Argument(help="what the process is")],
    container: Annotated[str | None, typer.Option(help="name of the container, of a task_manager only")] = None,
    host: Annotated[
        list[str] | None, typer.Option(help="a DNS name or IP address at which it is reached; may be repeated")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(help="folder that gets all that a process with TLS needs; default: the identity folder"),
    ] = None,
    days: Days = CERTIFICATE_DAYS,
) -> None:
    """Issue a certificate for one process, or renew it."""
    try:
        caller = Caller(role, container)
    except ValueError as error:
        raise UserError(str(error), field="container", rule="container_of_task_manager") from error
    folder = _folder()
    folder.issue(caller, host or ["localhost", "127.0.0.1"], datetime.now(UTC), days=days, to=to)
    say(f"issued {caller} for {days:g} days, in {to or folder.path}")


def list_(as_json: AsJson = False) -> None:
    """List the certificates in the identity folder, those issued from it to other folders, and when they expire."""
    folder = _folder()
    here = [(str(each.caller), ", ".join(each.hosts), each.expires_at, "here") for each in folder.issued()]
    others = [
        (str(each.caller), ", ".join(each.hosts), each.expires_at, each.folder)
        for each in folder.elsewhere(datetime.now(UTC))
    ]
    headings = ("process", "hosts", "expires", "folder")
    if as_json:
        return show_data([dict(zip(headings, map(str, row), strict=True)) for row in (*here, *others)])
    return table(headings, [*here, *others])


def rotate(
    add_authority: Annotated[
        bool, typer.Option("--add-authority", help="trust a new authority too, which issues from now on")
    ] = False,
    drop_old: Annotated[bool, typer.Option("--drop-old", help="trust only the newest authority")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="with --drop-old: also when what was issued to other folders is of an old one")
    ] = False,
    days: Days = CERTIFICATE_DAYS,
) -> None:
    """Renew the secret of this machine and all certificates in the identity folder. Running processes take them.

    Certificates that were issued to other folders stay as they are: the commands that issue them again are printed.
    """
    if add_authority and drop_old:
        raise UserError("give one of --add-authority and --drop-old", field="drop_old", rule="one_of")
    folder, now = _folder(), datetime.now(UTC)
    if add_authority:
        folder.add_authority(now)
        say(f"a new authority is trusted here; bring {folder.path / AUTHORITY} to all processes, then run")
        say("`penstock certificates rotate`")
    elif drop_old:
        say(f"authorities that are not trusted any more: {folder.drop_old_authorities(now, unseen=yes)}")
        say(f"processes with a folder of their own need the new {folder.path / AUTHORITY}")
    else:
        renewed = folder.renew(now, days=days)
        folder.renew_secret()
        say(f"renewed the secret of this machine, and the certificates of {', '.join(map(str, renewed)) or 'nobody'}")
        _say_others(folder.elsewhere(now))


def _say_others(records: Sequence[Record]) -> None:
    if records:
        say("not renewed, since they are in other folders. Issue them again, and bring the files to the processes:")
    for each in records:
        say(f"  {each.command()}")


def _folder() -> IdentityFolder:
    return IdentityFolder(CliSettings.read().identity_folder())
