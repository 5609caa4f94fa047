"""Arguments of a call that were read without FastAPI are those that FastAPI reads; all else is left to FastAPI."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Header, Query, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel

from services.job_service.api import _ROUTES
from services.job_service.arguments import Arguments, Unusual, arguments_of
from services.job_service.requests import JobName


class Body(BaseModel):
    """A body with a default."""

    config: dict[str, Any]
    reason: str = "none"


async def _version(request: Request, if_match: Annotated[str | None, Header(pattern='^"[0-9]+"$')] = None) -> str:
    return f"{request.method} {if_match}"


VersionOf = Annotated[str, Depends(_version)]
given: list[Mapping[str, Any]] = []
app = FastAPI()


@app.put("/{job}")
def put(job: JobName, body: Body, version: VersionOf, verify: Annotated[bool, Query()] = True) -> Response:
    """Notes what it was called with."""
    given.append({"job": job, "body": body, "version": version, "verify": verify})
    return Response()


@app.get("/{job}")
def get(job: JobName, tags: Annotated[list[str], Query(default_factory=lambda: ["a"])]) -> Response:
    """The same, without a body."""
    given.append({"job": job, "tags": tags})
    return Response()


JSON = {"Content-Type": "application/json"}
BODY = b'{"config": {"priority": 1}}'
USUAL = {
    "put": ("PUT", "/j-1", JSON, BODY),
    "with a header": ("PUT", "/j-1", {**JSON, "IF-match": '"7"'}, BODY),
    "with an unknown header": ("PUT", "/j-1", {**JSON, "If-None-Match": "*", "X": "\xe9"}, BODY),
    "get": ("GET", "/j-1", {}, b""),
}
UNUSUAL = {
    "a name against the rule": ("PUT", "/J_1", JSON, BODY),
    "a header against the rule": ("PUT", "/j-1", {**JSON, "If-Match": "7"}, BODY),
    "a query": ("PUT", "/j-1?verify=false", JSON, BODY),
    "no body": ("PUT", "/j-1", JSON, b""),
    "no JSON": ("PUT", "/j-1", JSON, b"{"),
    "a body without a field": ("PUT", "/j-1", JSON, b"{}"),
    "another type of body": ("PUT", "/j-1", {"Content-Type": "text/plain"}, BODY),
    "no type of body": ("PUT", "/j-1", {}, BODY),
    "JSON of another name": ("PUT", "/j-1", {"Content-Type": "application/json; charset=utf-8"}, BODY),
}
Call = tuple[str, str, dict[str, str], bytes]


def _read(call: Call) -> dict[str, Any]:
    method, target, headers, content = call
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "path_params": {"job": path[1:]},
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": content, "more_body": False}

    (route,) = (each for each in app.routes if isinstance(each, APIRoute) and method in each.methods)
    arguments = arguments_of(route)
    assert isinstance(arguments, Arguments)
    return asyncio.run(arguments.of(Request(scope, receive)))


@pytest.mark.parametrize("call", USUAL.values(), ids=USUAL)
def test_they_are_what_fastapi_reads(call: Call) -> None:
    method, target, headers, content = call
    given.clear()
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]

    async def ask() -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
            return (await client.request(method, target, headers=raw, content=content)).status_code

    assert asyncio.run(ask()) == 200
    assert [_read(call)] == given


@pytest.mark.parametrize("call", UNUSUAL.values(), ids=UNUSUAL)
def test_all_else_is_left_to_fastapi(call: Call) -> None:
    with pytest.raises(Unusual):
        _read(call)


@pytest.mark.parametrize(
    "name", ["put_job", "get_job", "list_jobs", "get_layer", "put_layer", "patch_layer", "drop_layer"]
)
def test_the_calls_that_are_made_most_are_read_without_fastapi(name: str) -> None:
    routes = [route for routes in _ROUTES for route in routes.router.routes if isinstance(route, APIRoute)]
    (route,) = (route for route in routes if route.name == name)
    assert arguments_of(route) is not None


def test_a_call_whose_answer_fastapi_makes_is_left_to_it() -> None:
    other = FastAPI()

    @other.get("/")
    def view() -> Body:
        return Body(config={})

    (route,) = (route for route in other.routes if isinstance(route, APIRoute))
    assert arguments_of(route) is None
