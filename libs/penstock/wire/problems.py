"""RFC 9457 problems: what a refused call is answered."""

from __future__ import annotations

from typing import Any

from fastapi.responses import JSONResponse

from penstock.control.errors import PenstockError, RetryableError, TooManyCalls, Unauthenticated, UserError

PROBLEM = "application/problem+json"


def problem(status: int, title: str, detail: str, **extra: Any) -> JSONResponse:
    """An RFC 9457 problem; `field` and `rule` go into `extra` where a field is at fault."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    body.update({key: value for key, value in extra.items() if value is not None})
    return JSONResponse(body, status_code=status, media_type=PROBLEM)


def penstock_error(error: PenstockError) -> JSONResponse:
    """The problem of an error that was raised on purpose."""
    extra = dict(error.extra)
    if isinstance(error, UserError):
        extra.update(field=error.field, rule=error.rule)
    response = problem(error.status, type(error).__name__, error.detail, **extra)
    if isinstance(error, Unauthenticated):
        response.headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, TooManyCalls):
        response.headers["Retry-After"] = str(error.extra.get("retry_after_seconds", 1))
    if isinstance(error, RetryableError):
        response.headers["Retry-After"] = "1"
    return response
