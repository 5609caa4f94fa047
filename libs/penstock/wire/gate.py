"""The door of every internal port: who calls is known before a body is read, and each call is allowed by one table."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, NamedTuple

from fastapi import Depends, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.control.errors import PenstockError, Unauthenticated
from penstock.identity.process import ProcessIdentity
from penstock.identity.roles import Caller
from penstock.identity.rules import require_allowed
from penstock.identity.statements import HEADER, Statement
from penstock.wire.problems import penstock_error, problem

MOST_BODY_BYTES = 64 * 2**20
PEER = "penstock.peer"
_CALLER = "caller"
_HEADER = HEADER.lower().encode()


class Peer(NamedTuple):
    """What a connection with TLS knows: the client's certificate (DER), its URIs, and its end (seconds since 1970)."""

    uris: list[str]
    expires_at: float
    certificate: bytes


class Gate:
    """ASGI middleware around the application of one service."""

    def __init__(self, app: ASGIApp, *, service: str, identity: ProcessIdentity, open_metrics: bool) -> None:
        self._app = app
        self._service = service
        self._identity = identity
        self._open_metrics = open_metrics or not identity.tls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            caller, statement = self._caller(scope)
            path, method = scope["path"], scope["method"]
            require_allowed(self._service, method, path, caller, open_metrics=self._open_metrics)
        except PenstockError as error:
            await self._refusal(error)(scope, receive, send)
            return
        if _announced_bytes(scope) > MOST_BODY_BYTES:
            await problem(413, "TooLarge", _too_large())(scope, receive, send)
            return
        scope.setdefault("state", {})[_CALLER] = caller
        await self._app(scope, _bounded(receive, statement), send)

    def _refusal(self, error: PenstockError) -> Response:
        response = penstock_error(error)
        if self._identity.tls and isinstance(error, Unauthenticated):
            # What is wrong with the certificate of a connection stays wrong: the client is to make a new one.
            response.headers["Connection"] = "close"
        return response

    def _caller(self, scope: Scope) -> tuple[Caller | None, Statement | None]:
        """Who calls, None when nothing says so, and by which statement. Raises Unauthenticated when what is said is not
        true."""
        if self._identity.tls:
            return self._in_certificate(scope.get("state", {}).get(PEER)), None
        text = _header(scope, _HEADER)
        if text is None:
            return None, None
        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        found = self._identity.verified(text.decode("latin-1"), scope["method"], target.decode("latin-1"))
        return found.caller, found

    def _in_certificate(self, peer: Peer | None) -> Caller | None:
        if peer is None:
            return None
        if peer.expires_at <= self._identity.now():
            raise Unauthenticated("the certificate has expired since the connection was made", rule="not_expired")
        if not self._identity.trusts(peer.certificate):
            raise Unauthenticated("the authority that issued the certificate is trusted no more", rule="issued_by")
        return self._identity.caller_in(peer.uris)


def known_caller(request: Request) -> Caller | None:
    """Who makes a request; None for an open call of somebody who is not known."""
    return getattr(request.state, _CALLER, None)


def require_caller(request: Request) -> Caller:
    """Who makes a request. Raises Unauthenticated when nobody known does."""
    caller = known_caller(request)
    if caller is None:
        raise Unauthenticated("this call needs the identity of a process of this cell", rule="known_caller")
    return caller


KnownCaller = Annotated[Caller, Depends(require_caller)]
"""A parameter of a route: who calls."""


def _header(scope: Scope, name: bytes) -> bytes | None:
    found = [value for key, value in scope["headers"] if key == name]
    return found[0] if len(found) == 1 else None


def _announced_bytes(scope: Scope) -> int:
    announced = _header(scope, b"content-length") or b"0"
    return int(announced) if announced.isdigit() else 0


def _bounded(receive: Receive, statement: Statement | None) -> Receive:
    """A body is counted while it comes, as it may have no announced length, and compared with the caller's statement
    at its end."""
    read, content = 0, sha256()

    async def next_message() -> Message:
        """See ASGI."""
        nonlocal read
        message = await receive()
        part = message.get("body", b"")
        read += len(part)
        if read > MOST_BODY_BYTES:
            raise HTTPException(413, _too_large())
        if statement is not None and message["type"] == "http.request":
            content.update(part)
            if not message.get("more_body", False) and content.hexdigest() != statement.body:
                raise HTTPException(401, "the statement of the caller is of another body")
        return message

    return next_message


def _too_large() -> str:
    return f"the body has more than {MOST_BODY_BYTES} bytes"
