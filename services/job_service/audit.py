"""The audit log: a line for each call that may write, done or refused. What was written is in the history."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import HTTPException, Request
from fastapi.exceptions import RequestValidationError

from penstock.control.errors import PenstockError
from penstock.control.logs import logger

log = logger(__name__)


@contextmanager
def recorded(request: Request) -> Iterator[list[int]]:
    """Logs who calls from which address, and the status of the answer: what is put into the list, or of an error.

    The address is that of the connection: of the console, or of a proxy, where one stands between.
    """
    answered: list[int] = []
    try:
        yield answered
    except Exception as error:
        answered.append(_status_of(error))
        raise
    finally:
        log.info(
            "call that writes",
            author=request.state.principal.name,
            address=request.client.host if request.client else None,
            method=request.method,
            path=request.scope["path"],
            status=answered[-1] if answered else None,
        )


def _status_of(error: Exception) -> int:
    if isinstance(error, PenstockError):
        return error.status
    if isinstance(error, HTTPException):
        return error.status_code
    return 422 if isinstance(error, RequestValidationError) else 500
