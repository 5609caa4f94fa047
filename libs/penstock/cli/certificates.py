"""`penstock certificates`: by which the processes of a cell know each other. Works on files, not on a service."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.output import say, table
from penstock.cli.settings import CliSettings
from penstock.control.errors import UserError
from penstock.identity.authority import CERTIFICATE_DAYS
from penstock.identity.folder import IdentityFolder
from penstock.identity.roles import Caller, Role

Days = Annotated[float, typer.Option(min=0.01, help="days until the certificate expires")]


def issue(
    role: Annotated[Role, typer.Argument(help="what the process is")],
    container: Annotated[str | None, typer.Option(help="name of the container, of a task_manager only")] = None,
    host: Annotated[
        list[str] | None, typer.Option(help="a DNS name or IP address at which it is reached; may be repeated")
    ] = None,
    to: Annotated[
        Path | None, typer.Option(help="folder that gets all that the process needs; default: the identity folder")
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


def list_() -> None:
    """List the certificates in the identity folder and when they expire."""
    rows = [(str(each.caller), ", ".join(each.hosts), each.expires_at) for each in _folder().issued()]
    table(("process", "hosts", "expires"), rows)


def rotate(
    add_authority: Annotated[
        bool, typer.Option("--add-authority", help="trust a new authority too, which issues from now on")
    ] = False,
    drop_old: Annotated[bool, typer.Option("--drop-old", help="trust only the newest authority")] = False,
    days: Days = CERTIFICATE_DAYS,
) -> None:
    """Renew the secret of this machine and all certificates in the identity folder. Running processes take them."""
    if add_authority and drop_old:
        raise UserError("give one of --add-authority and --drop-old", field="drop_old", rule="one_of")
    folder, now = _folder(), datetime.now(UTC)
    if add_authority:
        folder.add_authority(now)
        say("a new authority is trusted; when all processes have it, run `penstock certificates rotate`")
    elif drop_old:
        say(f"authorities that are not trusted any more: {folder.drop_old_authorities()}")
    else:
        renewed = folder.renew(now, days=days)
        folder.renew_secret()
        say(f"renewed the secret of this machine, and the certificates of {', '.join(map(str, renewed)) or 'nobody'}")


def _folder() -> IdentityFolder:
    return IdentityFolder(CliSettings.read().identity_folder())
