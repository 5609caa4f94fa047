"""The audit log: a line for each call that may write, done or refused. What was written is in the history."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import HTTPException, Request
from fastapi.exceptions import RequestValidationError

from penstock.control.errors import PenstockError, Unauthenticated
from penstock.control.logs import logger
from penstock.identity.vouching import HEADER, Call

log = logger(__name__)


@contextmanager
def recorded(request: Request) -> Iterator[list[int]]:
    """Logs who calls from which address, and the status of the answer: what is put into the list, or of an error.

    The address is that of the connection, so of a proxy where one stands between; but of the browser where a console
    of this cell vouches for it, and then `via` is the console's.
    """
    answered: list[int] = []
    addresses: dict[str, str | None] = {"address": "unknown"}
    try:
        addresses = _addresses(request)
        yield answered
    except Exception as error:
        answered.append(_status_of(error))
        raise
    finally:
        log.info(
            "call that writes",
            author=request.state.principal.name,
            **addresses,
            method=request.method,
            path=request.scope["path"],
            status=answered[-1] if answered else None,
        )


def _addresses(request: Request) -> dict[str, str | None]:
    direct = request.client.host if request.client else None
    text, vouched = request.headers.get(HEADER), request.app.state.parts.vouched
    if text is None or vouched is None:
        return {"address": direct}
    query = request.scope["query_string"]
    target = request.scope["raw_path"] + (b"?" + query if query else b"")
    call = Call(request.method, target.decode("latin-1"), request.headers.get("authorization", ""))
    try:
        return {"address": vouched(text, call), "via": direct}
    except Unauthenticated as error:
        log.warning("address of a browser not taken", error=error.detail, address=direct)
        return {"address": direct}


def _status_of(error: Exception) -> int:
    if isinstance(error, PenstockError):
        return error.status
    if isinstance(error, HTTPException):
        return error.status_code
    return 422 if isinstance(error, RequestValidationError) else 500
