"""Signed statements of who calls, for calls on one machine without TLS. Pure.

`Penstock-Caller: <role>[/<container>] <seconds since 1970> <HMAC-SHA256>`, signed with the cell's loopback secret. The
signature covers method and target too, so that a statement is good for one call, and only for a minute.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from penstock.control.errors import Unauthenticated
from penstock.identity.roles import Caller, caller_of

HEADER = "Penstock-Caller"
GOOD_SECONDS = 60.0
_VERSION = "penstock-caller-1"
_LONGEST = 512


def statement(secret: bytes, caller: Caller, method: str, target: str, now: float) -> str:
    """What the header says. `target`: path and query as they are sent; `now`: seconds since 1970."""
    at = f"{now:.3f}"
    return f"{caller} {at} {_signature(secret, str(caller), at, method, target)}"


def verified(secrets: Sequence[bytes], text: str, method: str, target: str, now: float) -> Caller:
    """Who a statement says calls, when it is signed with one of the secrets. Raises Unauthenticated."""
    said = text.split(" ") if len(text) <= _LONGEST and text.isascii() else []
    if len(said) != 3:
        raise _refused("is malformed")
    who, at, signature = said
    if not any(hmac.compare_digest(_signature(each, who, at, method, target), signature) for each in secrets):
        raise _refused("is not signed with the secret of this cell")
    if abs(now - float(at)) > GOOD_SECONDS:
        raise _refused(f"is not of the last {GOOD_SECONDS:g} s")
    try:
        return caller_of(who)
    except ValueError as error:
        raise _refused("names no process") from error


def _signature(secret: bytes, who: str, at: str, method: str, target: str) -> str:
    message = "\n".join((_VERSION, who, at, method, target))
    return hmac.new(secret, message.encode(), "sha256").hexdigest()


def _refused(why: str) -> Unauthenticated:
    return Unauthenticated(f"the statement of the caller {why}", field=HEADER, rule="signed")
