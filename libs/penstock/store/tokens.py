"""Bearer tokens: 256 random bits, of which the store keeps only a SHA-256 hash."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Column, Connection, Row, exists, func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from penstock.control.errors import Conflict, NotFound
from penstock.store.tables import tokens

PREFIX = "pst_"
ADMIN = "admin"
ANY_LAYER = "*"
_SECRET_BYTES = 32
_FIRST_ADMIN_LOCK = 7_070_002


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token without its secret. `layers` names the layers it may write, `*` for all."""

    name: str
    role: str
    layers: tuple[str, ...]
    created_at: datetime
    revoked_at: datetime | None


_ROW: tuple[Column[Any], ...] = (
    tokens.c.name,
    tokens.c.role,
    tokens.c.layers,
    tokens.c.created_at,
    tokens.c.revoked_at,
)


def digest(token: str) -> str:
    """What the store keeps of a token. A plain hash is enough, because 256 random bits cannot be guessed."""
    return hashlib.sha256(token.encode()).hexdigest()


def create(connection: Connection, name: str, role: str, layers: Sequence[str]) -> str:
    """Makes a token and returns its secret, which is not stored. Raises Conflict if the name was ever used."""
    token = PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    row = {"name": name, "role": role, "layers": list(layers), "hash": digest(token)}
    statement = insert(tokens).values(row).on_conflict_do_nothing().returning(tokens.c.id)
    if connection.execute(statement).first() is None:
        raise Conflict("a token of this name exists or existed", field="name", rule="unique")
    return token


def create_first_admin(connection: Connection) -> str | None:
    """An admin token for a cell that has none, else None. Safe to call from several processes at once."""
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _FIRST_ADMIN_LOCK})
    good = exists().where(tokens.c.role == ADMIN, tokens.c.revoked_at.is_(None))
    if connection.execute(select(good)).scalar_one():
        return None
    taken = connection.execute(select(exists().where(tokens.c.name == ADMIN))).scalar_one()
    return create(connection, f"{ADMIN}-{secrets.token_hex(4)}" if taken else ADMIN, ADMIN, [ANY_LAYER])


def find(connection: Connection, token_digest: str) -> TokenRow | None:
    """The good token with this hash; None when there is none or it was revoked."""
    statement = select(*_ROW).where(tokens.c.hash == token_digest, tokens.c.revoked_at.is_(None))
    row = connection.execute(statement).first()
    return None if row is None else _row(row)


def all_tokens(connection: Connection) -> list[TokenRow]:
    """All tokens by name, revoked ones too."""
    return [_row(row) for row in connection.execute(select(*_ROW).order_by(tokens.c.name))]


def revoke(connection: Connection, name: str) -> None:
    """Ends a token; safe to repeat. Raises NotFound."""
    statement = update(tokens).where(tokens.c.name == name).returning(tokens.c.id)
    revoked_at = func.coalesce(tokens.c.revoked_at, func.now())
    if connection.execute(statement.values(revoked_at=revoked_at)).first() is None:
        raise NotFound(f"there is no token {name}", field="name", rule="known")


def _row(row: Row[Any]) -> TokenRow:
    return TokenRow(row.name, row.role, tuple(row.layers), row.created_at, row.revoked_at)
