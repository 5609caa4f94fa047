"""Signed statements of who calls, for calls on one machine without TLS. Pure.

`Penstock-Caller: <role>[/<container>] <seconds since 1970> <nonce> <SHA-256 of the body> <HMAC-SHA256>`, signed with
the cell's loopback secret. The signature covers method and target too, so a statement is good for one call with one
body, for a minute. A process takes each nonce once. The path of a call names its service: no two services have one.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from penstock.control.errors import Unauthenticated
from penstock.identity.roles import Caller, caller_of

HEADER = "Penstock-Caller"
GOOD_SECONDS = 60.0
AHEAD_SECONDS = 5.0
"""How far the clock of a caller may be ahead. It is the same machine's, and may be set meanwhile."""
MOST_NONCES = 100_000
_VERSION = "penstock-caller-2"
_LONGEST = 512


class Statement(NamedTuple):
    """What a good statement says. `body`: the digest of the body that the call has."""

    caller: Caller
    nonce: str
    body: str


def statement(secret: bytes, caller: Caller, method: str, target: str, body: bytes, *, nonce: str, now: float) -> str:
    """What the header says. `target`: path and query as they are sent; `nonce`: a text that was never used before,
    without blanks; `now`: seconds since 1970."""
    said = f"{caller} {now:.3f} {nonce} {sha256(body).hexdigest()}"
    return f"{said} {_signature(secret, said, method, target)}"


def verified(secrets: Sequence[bytes], text: str, method: str, target: str, now: float) -> Statement:
    """A statement that is signed with one of the secrets. Raises Unauthenticated."""
    parts = text.split(" ") if len(text) <= _LONGEST and text.isascii() else []
    if len(parts) != 5:
        raise _refused("is malformed")
    said, _, signature = text.rpartition(" ")
    if not any(hmac.compare_digest(_signature(each, said, method, target), signature) for each in secrets):
        raise _refused("is not signed with the secret of this cell")
    who, at, nonce, body, _ = parts
    if not -AHEAD_SECONDS <= now - float(at) <= GOOD_SECONDS:
        raise _refused(f"is not of the last {GOOD_SECONDS:g} s")
    try:
        return Statement(caller_of(who), nonce, body)
    except ValueError as error:
        raise _refused("names no process") from error


class Nonces:
    """The nonces of the statements that were taken, while these are good. Not safe from several threads."""

    def __init__(self, most: int = MOST_NONCES) -> None:
        """Beyond `most` the oldest are forgotten. Only who has the secret can fill it."""
        self._most = most
        self._taken: OrderedDict[str, float] = OrderedDict()

    def take(self, nonce: str, now: float) -> None:
        """Raises Unauthenticated when it was taken before. `now` as in `verified`."""
        if nonce in self._taken:
            raise _refused("was used before")
        self._taken[nonce] = now
        while len(self._taken) > self._most or now - next(iter(self._taken.values())) > GOOD_SECONDS + AHEAD_SECONDS:
            self._taken.popitem(last=False)


def _signature(secret: bytes, said: str, method: str, target: str) -> str:
    message = "\n".join((_VERSION, said, method, target))
    return hmac.new(secret, message.encode(), "sha256").hexdigest()


def _refused(why: str) -> Unauthenticated:
    return Unauthenticated(f"the statement of the caller {why}", field=HEADER, rule="signed")
