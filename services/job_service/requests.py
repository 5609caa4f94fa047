"""What routes share: JSON bodies read strictly, headers, the caller, and answers."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import APIRouter, Body, Depends, Header, HTTPException, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import AfterValidator
from pydantic_core import PydanticCustomError
from sqlalchemy import Connection, Engine

from penstock.config.declare import NAME, NAME_RULE
from penstock.config.model import JobConfig
from penstock.config.validate import read_merged
from penstock.control.clock import Clock
from penstock.control.errors import InvalidConfig, NotFound
from penstock.control.texts import clean
from penstock.control.unique_keys import DuplicateKey
from penstock.identity.vouching import Call as AddressCall
from penstock.model.jobs import StoredJob
from penstock.wire.jobs import Problem, View, WithReason
from penstock.wire.replays import ReplayClient
from services.job_service.access import Need, Principal
from services.job_service.analyses import Analyses
from services.job_service.answers import Answer
from services.job_service.arguments import arguments_of, usual
from services.job_service.audit import recorded
from services.job_service.authentication import Authenticator
from services.job_service.calls import Call, Shared
from services.job_service.census import Census
from services.job_service.cursors import Page
from services.job_service.events.reader import EventReader
from services.job_service.events.slots import Slots
from services.job_service.probes import Probes
from services.job_service.rates import Rates, Sizes
from services.job_service.store import expected
from services.job_service.store.layers import all_layers
from services.job_service.strictjson import strict_json
from services.job_service.task_logs import TaskLogs
from services.job_service.writes import Precondition
from services.job_service.writes import expected as merged_of

_PRINTABLE = r"^[!-~]{1,200}$"
_NO_NUL = r"^[^\x00]*$"
_SMALL_BYTES = 64 * 1024
_LONGEST_NUMBER = 18
_VERSION = r'^"(0|[1-9][0-9]{0,17})"$'
_VERSION_OR_ANY = r'^(\*|"(0|[1-9][0-9]{0,17})")$'
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"description": "the body cannot be read", "model": Problem},
    401: {"description": "no token, or one that is unknown, revoked or expired", "model": Problem},
    403: {"description": "the token may not do this", "model": Problem},
    404: {"description": "no such job, layer, version, container or token", "model": Problem},
    409: {"description": "the version has moved on, or the call contradicts the present state", "model": Problem},
    413: {"description": "the body is too large", "model": Problem},
    422: {"description": "a field breaks a rule", "model": Problem},
    428: {"description": "a write without If-Match", "model": Problem},
    503: {"description": "the job store cannot be reached", "model": Problem},
}


@dataclass(frozen=True, slots=True)
class Parts:
    """What the routes work with, `app.state.parts`. `vouched`: a browser's address by a console; None: no console."""

    engine: Engine
    clock: Clock
    authenticator: Authenticator
    sizes: Sizes
    rollout_share: float
    analyses: Analyses
    path_roots: Sequence[str]
    runbook_url: str
    replays: ReplayClient
    probes: Probes
    task_logs: TaskLogs
    census: Census
    rates: Rates
    events: EventReader
    event_slots: Slots
    shared: Shared
    vouched: Callable[[str, AddressCall], str] | None = None


class StrictRequest(Request):
    """A request whose JSON body has limits of its token, and is read by `strict_json`."""

    async def body(self) -> bytes:
        """The body. Raises HTTPException 413 when it is too large, TooManyCalls when its token sends too much."""
        if not hasattr(self, "_body"):
            parts: Parts = self.app.state.parts
            caller: Principal = self.state.principal
            most, said = parts.sizes.most_of(caller.role), self.headers.get("content-length", "")
            if said.isdecimal() and (len(said) > _LONGEST_NUMBER or int(said) > most):
                raise _too_large(most)
            parts.sizes.rates.take(caller.name, parts.clock.monotonic(), int(said) if said.isdecimal() else 1)
            self._body = await self._whole(most, counted=said.isdecimal())
        return self._body

    async def _whole(self, most: int, *, counted: bool) -> bytes:
        """All of the body. What was not `counted` before counts now, also when it is too large."""
        parts, read = self.app.state.parts, bytearray()
        try:
            async for chunk in self.stream():
                read += chunk
                if len(read) > most:
                    raise _too_large(most)
        finally:
            if not counted:
                parts.sizes.rates.charge(self.state.principal.name, parts.clock.monotonic(), len(read))
        return bytes(read)

    async def json(self) -> Any:
        """The body. Raises json.JSONDecodeError, which becomes a 422, and InvalidConfig for a key that occurs twice."""
        if not hasattr(self, "_strict"):
            try:
                self._strict = await _read(await self.body())
            except DuplicateKey as error:
                raise InvalidConfig(f"body: {error}", field=clean(error.key), rule="duplicate_key") from error
            except ValueError as error:
                said = str(error)
            else:
                return self._strict
            # Not within the handler: the error before would keep the body in a cycle of its frames.
            raise json.JSONDecodeError(said, "", 0)
        return self._strict


def _too_large(most: int) -> HTTPException:
    return HTTPException(413, f"a body may have at most {most} bytes")


async def _read(body: bytes) -> Any:
    """The value of a body. A large one is read on a thread, so that other calls need not wait for it."""
    return strict_json(body) if len(body) <= _SMALL_BYTES else await run_in_threadpool(strict_json, body)


_needs: dict[Callable[..., Any], tuple[Need, ...]] = {}
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])


def needs(*all_of: Need) -> Callable[[_Endpoint], _Endpoint]:
    """Says who may make the call of an endpoint. Stands below the router's decorator."""

    def note(endpoint: _Endpoint) -> _Endpoint:
        _needs[endpoint] = all_of
        return endpoint

    return note


class StrictRoute(APIRoute):
    """A route of callers with a token, which reads its body strictly. Without a token that may make the call no body
    is read. A call that writes must say what it `needs`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler on a StrictRequest. Raises TypeError for a call that writes and does not say who may."""
        handler = super().get_route_handler()
        needed = _needs.get(self.endpoint, ())
        arguments, is_async = arguments_of(self), iscoroutinefunction(self.endpoint)
        if not needed and self.methods != {"GET"}:
            raise TypeError(f"{self.methods} {self.path} does not say who may call it: add `requests.needs`")

        async def handle(request: Request) -> Response:
            request.state.principal = await _caller(request)
            if self.methods == {"GET"}:
                return await answer(request)
            with recorded(request) as status:
                answered = await answer(request)
                status.append(answered.status_code)
            return answered

        async def answer(request: Request) -> Response:
            for need in needed:
                need(request.state.principal, request.path_params)
            strict = StrictRequest(request.scope, request.receive)
            if self.body_field is not None:
                with suppress(json.JSONDecodeError):  # FastAPI's handler refuses it, and would hide other errors
                    await strict.json()
            given = None if arguments is None else await usual(arguments, strict)
            if given is None:
                return await handler(strict)
            if is_async:
                return await self.endpoint(**given)  # type: ignore[no-any-return]
            return await run_in_threadpool(self.endpoint, **given)

        return handle


def router_of(tag: str) -> APIRouter:
    """A router of calls with a token, for the part of the document with this tag."""
    return APIRouter(tags=[tag], route_class=StrictRoute, responses=_PROBLEMS)


_SCHEME, _TOKEN_WANTED = "HTTPBearer", "a token of `POST /v1/tokens`"
_bearer = HTTPBearer(scheme_name=_SCHEME, auto_error=False, description=_TOKEN_WANTED)


async def _caller(request: Request) -> Principal:
    """Who calls. Raises Unauthenticated, and TooManyCalls."""
    parts: Parts = request.app.state.parts
    known = await principal_of(parts, await _token(await _bearer(request)))
    parts.rates.take(known.name, parts.clock.monotonic())
    return known


async def principal_of(parts: Parts, token: str | None) -> Principal:
    """Who a token belongs to. Raises Unauthenticated."""
    known = parts.authenticator.remembered(token)
    return await run_in_threadpool(parts.authenticator.principal, token) if known is None else known


# FastAPI solves the dependencies of a call one by one, those of others too: few, and none below others. Those
# that do no I/O are `async`: FastAPI runs the others on threads, and each change of thread costs as much as a query.
class _KnownCaller(HTTPBearer):
    """What `StrictRoute` found out before it read the body; as a dependency it also says in the document that the call
    needs a token."""

    async def __call__(self, request: Request) -> Principal:  # type: ignore[override]
        """Who calls."""
        principal: Principal = request.state.principal
        return principal


PrincipalOf = Annotated[Principal, Depends(_KnownCaller(scheme_name=_SCHEME, description=_TOKEN_WANTED))]


async def _token(credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> str | None:
    return None if credentials is None else credentials.credentials


TokenOf = Annotated[str | None, Depends(_token)]
"""The caller's token, for what lasts longer than one call; None without authentication."""


async def _authorized(request: Request, _: PrincipalOf) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


PartsOf = Annotated[Parts, Depends(_authorized)]


async def _call(
    request: Request,
    principal: PrincipalOf,
    idempotency_key: Annotated[str | None, Header(pattern=_PRINTABLE)] = None,
) -> Call:
    parts: Parts = request.app.state.parts
    began = parts.clock.monotonic()
    fingerprint = "" if idempotency_key is None else _fingerprint(request, await request.body())
    return Call(
        parts.engine,
        parts.clock,
        principal,
        idempotency_key,
        fingerprint,
        parts.analyses,
        began,
        parts.path_roots,
        parts.shared,
    )


CallOf = Annotated[Call, Depends(_call)]


_QUOTED = (
    'The version of the layer that was read, with the double quotes of the ETag: `If-Match: "3"`, in a shell '
    '`curl -H \'If-Match: "3"\'`; `"0"` for a layer that was never written'
)


async def _precondition(
    if_match: Annotated[str | None, Header(pattern=_VERSION, description=f"{_QUOTED}.", examples=['"3"'])] = None,
) -> Precondition:
    return Precondition(if_match=_version(if_match))


async def _job_precondition(
    if_match: Annotated[
        str | None,
        Header(
            pattern=_VERSION_OR_ANY,
            description=f"{_QUOTED}. `*`: whatever version there is. The layer is `base`.",
            examples=['"3"'],
        ),
    ] = None,
    if_none_match: Annotated[
        str | None, Header(pattern=r"^\*$", description="`*`: only create the job; refused when there is one.")
    ] = None,
) -> Precondition:
    return Precondition(
        if_match=None if if_match == "*" else _version(if_match),
        must_exist=if_match == "*",
        must_be_new=if_none_match is not None,
    )


LayerPrecondition = Annotated[Precondition, Depends(_precondition)]
JobPrecondition = Annotated[Precondition, Depends(_job_precondition)]


def is_name(what: str) -> AfterValidator:
    """Refuses in words what is no name."""

    def check(name: str) -> str:
        if re.fullmatch(NAME, name) is None:
            raise PydanticCustomError("name", f"a {what}'s name {NAME_RULE}")
        return name

    return AfterValidator(check)


def in_path(what: str) -> Any:
    """A name in the path of a call, as the document describes it."""
    return Path(description=f"the {what}'s name", json_schema_extra={"pattern": NAME})


JobName = Annotated[str, is_name("job"), in_path("job")]
LayerName = Annotated[str, is_name("layer"), in_path("layer")]
TokenName = Annotated[str, is_name("token"), in_path("token")]
TaskIndex = Annotated[int, Path(ge=0, le=9_999, description="the task's index")]
Limit = Annotated[int, Query(ge=1, le=1000, description="most items of the page")]
Cursor = Annotated[str | None, Query(max_length=1000, description="`next` of the page before")]
Text = Annotated[str, Query(max_length=2000, pattern=_NO_NUL)]
OptionalText = Annotated[str | None, Query(max_length=2000, pattern=_NO_NUL)]
Verify = Annotated[
    bool,
    Query(description="false: write without Spark's analysis, as for a table or topic that another job makes later"),
]
AllowRepeats = Annotated[
    bool, Query(description="other jobs may read rows there again that an earlier job has written")
]
ReasonBody = Annotated[WithReason, Body(default_factory=WithReason)]


async def _page_of_100(cursor: Cursor = None, limit: Limit = 100) -> Page:
    return Page(cursor, limit)


async def _page_of_1000(cursor: Cursor = None, limit: Limit = 1000) -> Page:
    return Page(cursor, limit)


PageOf100 = Annotated[Page, Depends(_page_of_100)]
PageOf1000 = Annotated[Page, Depends(_page_of_1000)]


def known_job(connection: Connection, job: str, *, lock: bool = False) -> StoredJob:
    """A job with its layers; with `lock`, locked until the transaction ends. Raises NotFound."""
    find = expected.lock if lock else expected.read
    stored = find(connection, [job]).get(job)
    if stored is None or not stored.exists:
        raise NotFound(f"there is no job {job}", field="job", rule="known")
    return stored


def expected_config(connection: Connection, job: str) -> JobConfig:
    """What the job's layers merge to. Raises NotFound, and InvalidConfig when that is no job any more."""
    return read_merged(merged_of(known_job(connection, job), all_layers(connection)))


def respond(answer: Answer) -> Response:
    """An answer as a response."""
    body = b"" if answer.status == 204 else orjson.dumps(answer.body)
    media_type = None if answer.status == 204 else "application/json"
    return Response(body, status_code=answer.status, headers=answer.headers, media_type=media_type)


def respond_view(view: View, tag: str | None = None) -> Response:
    """A view as a response. FastAPI would check it once more, and write it where all calls are answered."""
    headers = {} if tag is None else {"ETag": tag}
    return Response(view.model_dump_json(by_alias=True), headers=headers, media_type="application/json")


def _version(entity_tag: str | None) -> int | None:
    return None if entity_tag is None else int(entity_tag.strip('"'))


def _fingerprint(request: Request, body: bytes) -> str:
    parts = (
        request.method,
        request.scope["path"],
        request.scope["query_string"].decode("latin-1"),
        request.headers.get("if-match", ""),
        request.headers.get("if-none-match", ""),
    )
    return hashlib.sha256("\n".join(parts).encode() + b"\n" + body).hexdigest()
