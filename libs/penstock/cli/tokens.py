"""`penstock tokens`: who may write what."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.arguments import AsJson, Reason
from penstock.cli.connection import client
from penstock.cli.output import cell, say, show_json, table
from penstock.cli.parse import duration_seconds, expiry_seconds, name_of
from penstock.model.jobs import Role
from penstock.wire.tokens import Tokens

Name = Annotated[
    str, typer.Argument(help="name of the token; the history shows it as author", callback=name_of("token"))
]


def create(
    name: Name,
    role: Annotated[Role, typer.Option(help="what the token may do; it also decides which layers it may write")],
    layer: Annotated[
        list[str] | None, typer.Option(help="a layer that it may write instead of the role's; may be repeated")
    ] = None,
    time: Annotated[str | None, typer.Option("--for", help="12h, 90d: then it expires; default: never")] = None,
    reason: Reason = "",
) -> None:
    """Create a token and print it. It cannot be shown again."""
    seconds = None if time in (None, "never") else duration_seconds(str(time))
    token = client().create_token(name, role, layers=layer or None, expires_in_seconds=seconds, reason=reason)
    say(f"{name} ({role}), shown only now: {token}")


def rotate(
    name: Name,
    overlap: Annotated[str, typer.Option(help="how long the secret before stays good: 10m, 1h, 7d, or 0")] = "1h",
    time: Annotated[
        str | None, typer.Option("--for", help="12h, 90d, never: its new expiry; default: as it is")
    ] = None,
    reason: Reason = "",
) -> None:
    """Give a token a new secret and print it. The one before stays good for a while."""
    seconds = 0 if overlap == "0" else duration_seconds(overlap, field="overlap")
    made = client().rotate_token(name, overlap_seconds=seconds, expires_in_seconds=expiry_seconds(time), reason=reason)
    say(f"{name} ({made.role}), shown only now: {made.token}")
    ends = "never" if made.expires_at is None else cell(made.expires_at)
    say(f"expires: {ends}; the secret before: good for {overlap}")


def list_(as_json: AsJson = False) -> None:
    """List all tokens, without their secrets."""
    found = client().tokens()
    if as_json:
        return show_json(Tokens(tokens=found))
    rows = [(t.name, t.role, t.layers, t.created_at, t.expires_at, t.revoked_at) for t in found]
    return table(("name", "role", "layers", "created", "expires", "revoked"), rows)


def revoke(name: Name, reason: Reason = "") -> None:
    """Revoke a token. Calls with it are refused from now on."""
    client().revoke_token(name, reason=reason)
    say(f"revoked {name}")
