"""Commands that platform teams need once: the store, tokens, packages, topics."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.cli.jobs import client
from penstock.cli.output import out, table
from penstock.cli.settings import CliSettings
from penstock.control.errors import Conflict, Unavailable, UserError
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
        raise UserError(
            "name the job store: --database-url or PENSTOCK_DATABASE_URL", field="database_url", rule="required"
        )
    upgrade(url)
    with transaction(connect(url)) as connection:
        token = create_first_admin(connection)
    out.print("the store is up to date")
    out.print(f"admin token, shown only now: {token}" if token else "an admin token exists already")


@tokens.command("create")
def token_create(
    name: str,
    role: Annotated[TokenRole, typer.Option()],
    layer: Annotated[list[str] | None, typer.Option(help="layers it may write; the role's own if absent")] = None,
) -> None:
    """Make a token; it is shown only now."""
    token = client().create_token(name, role.value, layers=layer or None)
    out.print(f"{name} ({role.value}): {token}", soft_wrap=True)


@tokens.command("list")
def token_list() -> None:
    """All tokens, without their secrets."""
    rows = [(t.name, t.role, t.layers, t.created_at, t.revoked_at) for t in client().tokens()]
    table(("name", "role", "layers", "created", "revoked"), rows)


@tokens.command("revoke")
def token_revoke(name: str) -> None:
    """A revoked token is refused from now on."""
    client().revoke_token(name)
    out.print(f"revoked {name}")


@packages.command("pack")
def package_pack(folder: Path, name: str, version: str) -> None:
    """Pack a folder of Python modules for jobs; prints what to write as the job's `package`."""
    path, digest = pack(folder, name, version, CliSettings().packages())
    out.print(f"packed {path}")
    out.print_json(data={"package": {"name": name, "version": version, "digest": digest}})


@topics.command("create")
def topic_create(name: str, partitions: Annotated[int, typer.Option(min=1)] = 8) -> None:
    """Create a Kafka topic; its partitions are the key groups of the jobs that read it."""
    bootstrap = CliSettings().bootstrap()
    future = AdminClient({"bootstrap.servers": bootstrap}).create_topics([NewTopic(name, partitions, 1)])[name]
    try:
        future.result(15)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            raise Conflict(f"topic {name} exists already", field="name", rule="unique") from error
        raise Unavailable(f"Kafka at {bootstrap} did not create {name}: {error}") from error
    out.print(f"created {name} with {partitions} partitions")
