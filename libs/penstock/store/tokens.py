"""Bearer tokens: 256 random bits, of which the store keeps only a SHA-256 hash.

The last admin token that can be used is never revoked: whoever takes admins away holds one lock, so two admins cannot
revoke each other at once.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, text

from penstock.control.errors import Conflict, NotFound
from penstock.model.cell import CellAction, CellEntry
from penstock.model.tokens import ADMIN as ADMIN
from penstock.model.tokens import TokenRow, usable_admins
from penstock.store.cell_history import record
from penstock.store.rows import columns, read_all, read_first

PREFIX = "pst_"
ANY_LAYER = "*"
INIT = "init"
"""Who makes tokens with `penstock init`, in the history."""
_SECRET_BYTES = 32
_ADMINS_LOCK = 7_070_002

_CREATE = text(
    """
    INSERT INTO tokens (name, role, layers, hash, expires_at)
    VALUES (:name, :role, :layers, :hash, CAST(:expires_at AS timestamptz))
    ON CONFLICT DO NOTHING RETURNING id
    """
)
_FIND = text(
    f"""
    SELECT {columns(TokenRow)},
        CAST(extract(epoch FROM least(expires_at, good_until) - clock_timestamp()) AS double precision) AS good_seconds
    FROM (
        SELECT tokens.*, CAST(NULL AS timestamptz) AS good_until FROM tokens WHERE hash = :hash
        UNION ALL
        SELECT tokens.*, former.good_until FROM former_secrets former JOIN tokens ON tokens.id = former.token
        WHERE former.hash = :hash
    ) AS found
    WHERE revoked_at IS NULL AND coalesce(least(expires_at, good_until) > clock_timestamp(), true)
    """
)
_ALL = text(f"SELECT {columns(TokenRow)} FROM tokens ORDER BY name")
_ONE = text(f"SELECT {columns(TokenRow)} FROM tokens WHERE name = :name FOR UPDATE")
_ADMINS = text(f"SELECT {columns(TokenRow)} FROM tokens WHERE role = :admin")
_NOW = text("SELECT clock_timestamp()")
_REVOKE = text("UPDATE tokens SET revoked_at = clock_timestamp() WHERE name = :name")
_FORMER = text(
    """
    INSERT INTO former_secrets (hash, token, good_until)
    SELECT hash, id, clock_timestamp() + make_interval(secs => :seconds) FROM tokens WHERE name = :name
    """
)
_FORGET_FORMER = text("DELETE FROM former_secrets WHERE good_until < clock_timestamp()")
_ROTATE = text("UPDATE tokens SET hash = :hash, expires_at = CAST(:expires_at AS timestamptz) WHERE name = :name")
_IS_TAKEN = text("SELECT EXISTS (SELECT FROM tokens WHERE name = :name)")


class GoodToken(NamedTuple):
    """A token that can be used, with the secret that was asked for, for `good_seconds` from now; None: for ever."""

    row: TokenRow
    good_seconds: float | None


def digest(token: str) -> str:
    """What the store keeps of a token. A plain hash is enough, because 256 random bits cannot be guessed."""
    return hashlib.sha256(token.encode()).hexdigest()


def create(
    connection: Connection,
    name: str,
    role: str,
    layers: Sequence[str],
    *,
    expires_at: datetime | None = None,
    author: str = INIT,
    reason: str = "",
    action: CellAction = CellAction.TOKEN_CREATED,
) -> str:
    """Makes a token and returns its secret, which is not stored. Raises Conflict if the name was ever used."""
    token = PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    given = {"role": role, "layers": list(layers), "expires_at": expires_at}
    if connection.execute(_CREATE, {"name": name, "hash": digest(token), **given}).first() is None:
        raise Conflict("a token of this name exists or existed", field="name", rule="unique")
    record(connection, CellEntry(author, action, name, reason, new=given))
    return token


def create_first_admin(connection: Connection) -> str | None:
    """An admin token for a cell that never had one, else None. Safe to call from several processes at once."""
    _hold_admins(connection)
    return None if read_all(connection, TokenRow, _ADMINS, {"admin": ADMIN}) else _create_admin(connection)


def recover_admin(connection: Connection, reason: str) -> str:
    """A further admin token, whatever tokens there are: for who holds the store but has lost all of them."""
    _hold_admins(connection)
    return _create_admin(connection, reason, CellAction.ADMIN_RECOVERED)


def has_usable_admin(connection: Connection) -> bool:
    """Whether some admin token can be used now."""
    return bool(usable_admins(read_all(connection, TokenRow, _ADMINS, {"admin": ADMIN}), _now(connection)))


def find(connection: Connection, token_digest: str) -> GoodToken | None:
    """The good token with this hash; None when there is none, or it was revoked or has expired."""
    row = connection.execute(_FIND, {"hash": token_digest}).first()
    if row is None:
        return None
    found = dict(row._mapping)
    good_seconds = found.pop("good_seconds")
    return GoodToken(TokenRow(**found), good_seconds)


def all_tokens(connection: Connection) -> list[TokenRow]:
    """All tokens by name, revoked ones too."""
    return read_all(connection, TokenRow, _ALL)


def revoke(connection: Connection, name: str, *, author: str, reason: str = "") -> None:
    """Ends a token with all its secrets; safe to repeat. Raises NotFound, and Conflict for the last admin token that
    can be used."""
    _hold_admins(connection)
    row = require(connection, name)
    if row.revoked_at is not None:
        return
    now = _now(connection)
    if row.role == ADMIN and row.is_usable(now):
        others = [admin for admin in read_all(connection, TokenRow, _ADMINS, {"admin": ADMIN}) if admin.name != name]
        if not usable_admins(others, now):
            raise Conflict(
                f"{name} is the last admin token that can be used: create another one first",
                field="name",
                rule="last_admin",
            )
    connection.execute(_REVOKE, {"name": name})
    record(connection, CellEntry(author, CellAction.TOKEN_REVOKED, name, reason, old=_shown(row)))


def rotate(
    connection: Connection,
    name: str,
    *,
    overlap_seconds: float,
    expires_at: datetime | None,
    author: str,
    reason: str = "",
) -> tuple[TokenRow, str]:
    """Gives a token a new secret, and this expiry; the secret before stays good for `overlap_seconds`.

    Returns the token as it is then, and the secret. Raises NotFound, and Conflict when the token was revoked or would
    have expired.
    """
    _hold_admins(connection)
    row = require(connection, name)
    after = TokenRow(row.name, row.role, row.layers, row.created_at, row.revoked_at, expires_at)
    if not after.is_usable(_now(connection)):
        rule, what = ("not_revoked", "was revoked") if row.revoked_at is not None else ("not_expired", "has expired")
        field = "name" if row.revoked_at is not None else "expires_in_seconds"
        raise Conflict(f"the token {name} {what}: a new secret would not be good", field=field, rule=rule)
    token = PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
    connection.execute(_FORGET_FORMER)
    connection.execute(_FORMER, {"name": name, "seconds": overlap_seconds})
    connection.execute(_ROTATE, {"name": name, "hash": digest(token), "expires_at": expires_at})
    new = {**_shown(after), "overlap_seconds": overlap_seconds}
    record(connection, CellEntry(author, CellAction.TOKEN_ROTATED, name, reason, old=_shown(row), new=new))
    return after, token


def _hold_admins(connection: Connection) -> None:
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADMINS_LOCK})


def _create_admin(connection: Connection, reason: str = "", action: CellAction = CellAction.TOKEN_CREATED) -> str:
    taken = connection.execute(_IS_TAKEN, {"name": ADMIN}).scalar_one()
    name = f"{ADMIN}-{secrets.token_hex(4)}" if taken else ADMIN
    return create(connection, name, ADMIN, [ANY_LAYER], reason=reason, action=action)


def require(connection: Connection, name: str) -> TokenRow:
    """A token, locked until the transaction ends. Raises NotFound."""
    row = read_first(connection, TokenRow, _ONE, {"name": name})
    if row is None:
        raise NotFound(f"there is no token {name}", field="name", rule="known")
    return row


def _now(connection: Connection) -> datetime:
    now: datetime = connection.execute(_NOW).scalar_one()
    return now


def _shown(row: TokenRow) -> dict[str, object]:
    shown = asdict(row)
    return {name: shown[name] for name in ("role", "layers", "expires_at")}
