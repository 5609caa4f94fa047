"""`penstock secrets`: which jobs may use which secret. Values are in files of the containers, not here."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.arguments import AsJson, Reason
from penstock.cli.connection import client
from penstock.cli.output import say, show_json, table
from penstock.cli.parse import name_of
from penstock.wire.secrets import Secrets

Name = Annotated[str, typer.Argument(help="name of the secret, and of its file", callback=name_of("secret"))]


def list_(as_json: AsJson = False) -> None:
    """List all secrets with the jobs that may use them, without values."""
    found = client().secrets()
    if as_json:
        return show_json(Secrets(secrets=found))
    rows = [(each.name, each.jobs, each.author, each.updated_at) for each in found]
    return table(("name", "jobs", "author", "changed"), rows)


def put(
    name: Name,
    job: Annotated[
        list[str], typer.Option(help="a job that may use it; `team-a.*`: all that begin so; may be repeated")
    ],
    reason: Reason = "",
) -> None:
    """Say which jobs may use a secret, and no others. Refused while another job uses it."""
    client().put_secret(name, job, reason=reason)
    say(f"{name} may be used by {', '.join(job)}; its value is a file of each container")


def delete(name: Name, reason: Reason = "") -> None:
    """Let no job use a secret any more. Refused while one does. The files of the containers stay."""
    client().delete_secret(name, reason=reason)
    say(f"deleted {name}")
