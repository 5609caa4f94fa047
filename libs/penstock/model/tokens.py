"""Which admin tokens can be used, and when the last of them ends. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

ADMIN = "admin"
RECOVER = "`penstock init --recover`, run by who holds the job store, makes a new one"


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token without its secret. `layers` names the layers it may write, `*` for all. `expires_at` None: never."""

    name: str
    role: str
    layers: Sequence[str]
    created_at: datetime
    revoked_at: datetime | None
    expires_at: datetime | None = None

    def is_usable(self, now: datetime) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


@dataclass(frozen=True, slots=True)
class LastAdmin:
    """The end of the last admin token: `name` and `expires_at` None when none can be used any more."""

    name: str | None
    expires_at: datetime | None
    message: str


def usable_admins(tokens: Iterable[TokenRow], now: datetime) -> list[TokenRow]:
    """The admin tokens that can be used now."""
    return [token for token in tokens if token.role == ADMIN and token.is_usable(now)]


def ending_admin(tokens: Sequence[TokenRow], now: datetime, warn: timedelta) -> LastAdmin | None:
    """What to warn of: that no admin token can be used after a moment less than `warn` away; None when there is
    nothing to warn of."""
    admins = usable_admins(tokens, now)
    if not admins:
        made = any(token.role == ADMIN for token in tokens)
        return LastAdmin(None, None, f"no admin token can be used: {RECOVER}") if made else None
    ends = [admin.expires_at for admin in admins if admin.expires_at is not None]
    if len(ends) < len(admins) or max(ends) - now > warn:
        return None
    last = max(ends)
    name = next(admin.name for admin in admins if admin.expires_at == last)
    return LastAdmin(
        name,
        last,
        f"the last admin token, {name}, expires at {last.isoformat(timespec='seconds')}: create another, or rotate it "
        "with a later expiry (`penstock tokens rotate`)",
    )
