"""What routes share: JSON bodies read strictly, headers, the caller, and answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from fastapi import Depends, Header, HTTPException, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy import Engine

from penstock.control.clock import Clock
from services.job_service.access import Principal
from services.job_service.answers import Answer
from services.job_service.authentication import Authenticator
from services.job_service.strictjson import strict_json
from services.job_service.writer import Caller, Writer
from services.job_service.writes import Precondition

NAME = r"^[a-z0-9]([a-z0-9._-]{0,98}[a-z0-9])?$"
_PRINTABLE = r"^[!-~]{1,200}$"
_NO_NUL = r"^[^\x00]*$"
_VERSION = r'^"(0|[1-9][0-9]{0,17})"$'
_VERSION_OR_ANY = r'^(\*|"(0|[1-9][0-9]{0,17})")$'


@dataclass(frozen=True, slots=True)
class Parts:
    """What the routes work with; kept in `app.state.parts`."""

    engine: Engine
    clock: Clock
    writer: Writer
    authenticator: Authenticator
    largest_body_bytes: int
    rollout_share: float


class StrictRequest(Request):
    """A request whose JSON body has a limit and is read by `strict_json`."""

    async def body(self) -> bytes:
        """The body. Raises HTTPException 413 when it is too large."""
        if not hasattr(self, "_body"):
            most, read = self.app.state.parts.largest_body_bytes, bytearray()
            async for chunk in self.stream():
                read += chunk
                if len(read) > most:
                    raise HTTPException(413, f"a body may have at most {most} bytes")
            self._body = bytes(read)
        return self._body

    async def json(self) -> Any:
        """The body. Raises json.JSONDecodeError, which becomes a 422."""
        if not hasattr(self, "_strict"):
            try:
                self._strict = strict_json(await self.body())
            except ValueError as error:
                raise json.JSONDecodeError(str(error), "", 0) from error
        return self._strict


class StrictRoute(APIRoute):
    """A route that reads its body strictly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler on a StrictRequest."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await handler(StrictRequest(request.scope, request.receive))

        return handle


_bearer = HTTPBearer(auto_error=False, description="a token of `POST /v1/tokens`")


# Dependencies that do no I/O are `async`: FastAPI runs the others on threads, and each hop costs as much as a query.
async def _parts(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


PartsOf = Annotated[Parts, Depends(_parts)]


async def _principal(
    parts: PartsOf, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Principal:
    token = None if credentials is None else credentials.credentials
    known = parts.authenticator.remembered(token)
    return await run_in_threadpool(parts.authenticator.principal, token) if known is None else known


PrincipalOf = Annotated[Principal, Depends(_principal)]


async def _caller(
    request: Request,
    principal: PrincipalOf,
    idempotency_key: Annotated[str | None, Header(pattern=_PRINTABLE)] = None,
) -> Caller:
    return Caller(principal, idempotency_key, _fingerprint(request, await request.body()))


CallerOf = Annotated[Caller, Depends(_caller)]


async def _precondition(if_match: Annotated[str | None, Header(pattern=_VERSION)] = None) -> Precondition:
    return Precondition(if_match=_version(if_match))


async def _job_precondition(
    if_match: Annotated[str | None, Header(pattern=_VERSION_OR_ANY)] = None,
    if_none_match: Annotated[str | None, Header(pattern=r"^\*$")] = None,
) -> Precondition:
    return Precondition(
        if_match=None if if_match == "*" else _version(if_match),
        must_exist=if_match == "*",
        must_be_new=if_none_match is not None,
    )


LayerPrecondition = Annotated[Precondition, Depends(_precondition)]
JobPrecondition = Annotated[Precondition, Depends(_job_precondition)]
JobName = Annotated[str, Path(pattern=NAME, description="the job's name")]
LayerName = Annotated[str, Path(pattern=NAME, description="the layer's name")]
TokenName = Annotated[str, Path(pattern=NAME, description="the token's name")]
Limit = Annotated[int, Query(ge=1, le=1000, description="most items of the page")]
Cursor = Annotated[str | None, Query(max_length=1000, description="`next` of the page before")]
Text = Annotated[str, Query(max_length=2000, pattern=_NO_NUL)]
OptionalText = Annotated[str | None, Query(max_length=2000, pattern=_NO_NUL)]


def respond(answer: Answer) -> Response:
    """An answer as a response."""
    body = b"" if answer.status == 204 else orjson.dumps(answer.body)
    media_type = None if answer.status == 204 else "application/json"
    return Response(body, status_code=answer.status, headers=answer.headers, media_type=media_type)


def _version(entity_tag: str | None) -> int | None:
    return None if entity_tag is None else int(entity_tag.strip('"'))


def _fingerprint(request: Request, body: bytes) -> str:
    parts = (
        request.method,
        request.url.path,
        request.url.query,
        request.headers.get("if-match", ""),
        request.headers.get("if-none-match", ""),
    )
    return hashlib.sha256("\n".join(parts).encode() + b"\n" + body).hexdigest()
