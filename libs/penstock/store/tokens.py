"""Bearer tokens: 256 random bits, of which the store keeps only a SHA-256 hash."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from penstock.control.errors import Conflict, NotFound
from penstock.store.rows import columns, read_all, read_first

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
    layers: Sequence[str]
    created_at: datetime
    revoked_at: datetime | None


_CREATE = text(
    """
    INSERT INTO tokens (name, role, layers, hash) VALUES (:name, :role, :layers, :hash)
    ON CONFLICT DO NOTHING RETURNING id
    """
)
_FIND = text(f"SELECT {columns(TokenRow)} FROM tokens WHERE hash = :hash AND revoked_at IS NULL")
_ALL = text(f"SELECT {columns(TokenRow)} FROM tokens ORDER BY name")
_REVOKE = text("UPDATE tokens SET revoked_at = coalesce(revoked_at, now()) WHERE name = :name RETURNING id")
_HAS_ADMIN = text("SELECT EXISTS (SELECT FROM tokens WHERE role = :admin AND revoked_at IS NULL)")
_IS_TAKEN = text("SELECT EXISTS (SELECT FROM tokens WHERE name = :name)")


def digest(token: str) -> str:
    """What the store keeps of a token. A plain hash is enough, because 256 random bits cannot be guessed."""
    return hashlib.sha256(token.encode()).hexdigest()


def create(connection: Connection, name: str, role: str, layers: Sequence[str]) -> str:
    """Makes a token and returns its secret, which is not stored. Raises Conflict if the name was ever used."""
    token = PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    row = {"name": name, "role": role, "layers": list(layers), "hash": digest(token)}
    if connection.execute(_CREATE, row).first() is None:
        raise Conflict("a token of this name exists or existed", field="name", rule="unique")
    return token


def create_first_admin(connection: Connection) -> str | None:
    """An admin token for a cell that has none, else None. Safe to call from several processes at once."""
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _FIRST_ADMIN_LOCK})
    if connection.execute(_HAS_ADMIN, {"admin": ADMIN}).scalar_one():
        return None
    taken = connection.execute(_IS_TAKEN, {"name": ADMIN}).scalar_one()
    return create(connection, f"{ADMIN}-{secrets.token_hex(4)}" if taken else ADMIN, ADMIN, [ANY_LAYER])


def find(connection: Connection, token_digest: str) -> TokenRow | None:
    """The good token with this hash; None when there is none or it was revoked."""
    return read_first(connection, TokenRow, _FIND, {"hash": token_digest})


def all_tokens(connection: Connection) -> list[TokenRow]:
    """All tokens by name, revoked ones too."""
    return read_all(connection, TokenRow, _ALL)


def revoke(connection: Connection, name: str) -> None:
    """Ends a token; safe to repeat. Raises NotFound."""
    if connection.execute(_REVOKE, {"name": name}).first() is None:
        raise NotFound(f"there is no token {name}", field="name", rule="known")
