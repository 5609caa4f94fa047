"""`penstock tokens`: who may write what."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.connection import client
from penstock.cli.output import say, table
from penstock.cli.parse import name_of
from penstock.model.jobs import Role

Name = Annotated[
    str, typer.Argument(help="name of the token; the history shows it as author", callback=name_of("token"))
]


def create(
    name: Name,
    role: Annotated[Role, typer.Option(help="what the token may do; it also decides which layers it may write")],
    layer: Annotated[
        list[str] | None, typer.Option(help="a layer that it may write instead of the role's; may be repeated")
    ] = None,
) -> None:
    """Create a token and print it. It cannot be shown again."""
    token = client().create_token(name, role, layers=layer or None)
    say(f"{name} ({role}), shown only now: {token}")


def list_() -> None:
    """List all tokens, without their secrets."""
    rows = [(t.name, t.role, t.layers, t.created_at, t.revoked_at) for t in client().tokens()]
    table(("name", "role", "layers", "created", "revoked"), rows)


def revoke(name: Name) -> None:
    """Revoke a token. Calls with it are refused from now on."""
    client().revoke_token(name)
    say(f"revoked {name}")
