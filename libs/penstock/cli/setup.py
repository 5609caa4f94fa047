"""Commands that platform teams need once: the store, tokens, packages, topics."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy.exc import ArgumentError, DBAPIError

from penstock.cli.errors import required
from penstock.cli.jobs import client
from penstock.cli.output import out, say, table
from penstock.cli.settings import CliSettings
from penstock.control.errors import TerminalError, UserError
from penstock.local.topics import create_topics
from penstock.spark.packages import pack
from penstock.store.engine import connect, transaction
from penstock.store.migrate import upgrade
from penstock.store.tokens import create_first_admin


class TokenRole(StrEnum):
    """What a token may act as."""

    reader = "reader"
    provisioner = "provisioner"
    scaler = "scaler"
    oncall = "oncall"
    admin = "admin"


tokens = typer.Typer(no_args_is_help=True, help="bearer tokens: who may write what")
packages = typer.Typer(no_args_is_help=True, help="Python packages of jobs")
topics = typer.Typer(no_args_is_help=True, help="Kafka topics")


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the program."""
    app.add_typer(tokens, name="tokens")
    app.add_typer(packages, name="packages")
    app.add_typer(topics, name="topics")
    app.command()(init)


def init(database_url: Annotated[str | None, typer.Option(help="PENSTOCK_DATABASE_URL if absent")] = None) -> None:
    """Make or upgrade the job store; prints the first admin token, once."""
    url = database_url or CliSettings().database_url
    if url is None:
        raise required("name the job store: --database-url or PENSTOCK_DATABASE_URL", field="database_url")
    token = _prepare(url)
    say("the store is up to date")
    say(f"admin token, shown only now: {token}" if token else "an admin token exists already")


def _prepare(url: str) -> str | None:
    """The first admin token, when it was made now. What Postgres refuses is the caller's to know, in its words."""
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


@tokens.command("create")
def token_create(
    name: str,
    role: Annotated[TokenRole, typer.Option()],
    layer: Annotated[list[str] | None, typer.Option(help="layers it may write; the role's own if absent")] = None,
) -> None:
    """Make a token; it is shown only now."""
    token = client().create_token(name, role.value, layers=layer or None)
    say(f"{name} ({role.value}), shown only now: {token}")


@tokens.command("list")
def token_list() -> None:
    """All tokens, without their secrets."""
    rows = [(t.name, t.role, t.layers, t.created_at, t.revoked_at) for t in client().tokens()]
    table(("name", "role", "layers", "created", "revoked"), rows)


@tokens.command("revoke")
def token_revoke(name: str) -> None:
    """A revoked token is refused from now on."""
    client().revoke_token(name)
    say(f"revoked {name}")


@packages.command("pack")
def package_pack(folder: Path, name: str, version: str) -> None:
    """Pack a folder of Python modules for jobs; prints what to write as the job's `package`."""
    path, digest = pack(folder, name, version, CliSettings().packages())
    say(f"packed {path}")
    out.print_json(data={"package": {"name": name, "version": version, "digest": digest}})


@topics.command("create")
def topic_create(name: str, partitions: Annotated[int, typer.Option(min=1)] = 8) -> None:
    """Create a Kafka topic; its partitions are the key groups of the jobs that read it."""
    create_topics(CliSettings().bootstrap(), {name: partitions})
    say(f"created {name} with {partitions} partitions")
