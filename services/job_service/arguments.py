"""The arguments of a call whose parts are all as they should be.

FastAPI searches for all of them anew at each call, which takes half of the time of a small one. A route here knows
where its arguments are, and reads them by FastAPI's own fields. Where one is missing, unusual or against a rule,
`Unusual` is raised: FastAPI reads them all, and alone refuses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from inspect import iscoroutinefunction
from typing import Any, NamedTuple

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.params import Body
from fastapi.routing import APIRoute

_JSON = "application/json"
_ABSENT = object()


class Unusual(Exception):
    """A call that FastAPI has to read."""


class _Field(NamedTuple):
    """A parameter of a path, the query or the headers."""

    field: Any
    key: str

    def read(self, found: Any) -> Any:
        """The value of the parameter, from its text. Raises Unusual."""
        if found is _ABSENT:
            if self.field.field_info.is_required() or self.field.field_info.validate_default:
                raise Unusual
            return deepcopy(self.field.default)
        value, errors = self.field.validate(found)
        if errors:
            raise Unusual
        return value


class Arguments:
    """The parameters of an endpoint, or of a dependency of it."""

    def __init__(self, dependant: Dependant) -> None:
        self._call = dependant.call
        self._path = _fields(dependant.path_params)
        self._query = _fields(dependant.query_params)
        self._headers = _fields(dependant.header_params)
        self._body = _fields(dependant.body_params)
        self._request = dependant.request_param_name
        self._dependencies = [(each.name or "", Arguments(each)) for each in dependant.dependencies]

    async def of(self, request: Request) -> dict[str, Any]:
        """The values of all parameters of the endpoint by name. Raises Unusual."""
        found = reversed(request.scope["headers"])  # the first of a name counts
        return await self._read(request, {name.decode("latin-1"): value.decode("latin-1") for name, value in found})

    async def _read(self, request: Request, headers: Mapping[str, str]) -> dict[str, Any]:
        values = {name: await each._value(request, headers) for name, each in self._dependencies}
        if self._query and request.scope["query_string"]:
            raise Unusual
        for found, fields in ((request.path_params, self._path), ({}, self._query), (headers, self._headers)):
            for each in fields:
                values[each.field.name] = each.read(found.get(each.key, _ABSENT))
        for each in self._body:
            values[each.field.name] = each.read(await _json(request, headers))
        if self._request is not None:
            values[self._request] = request
        return values

    async def _value(self, request: Request, headers: Mapping[str, str]) -> Any:
        """What a dependency gives."""
        assert self._call is not None
        return await self._call(**await self._read(request, headers))


async def _json(request: Request, headers: Mapping[str, str]) -> Any:
    if headers.get("content-type") != _JSON or not await request.body():
        raise Unusual
    try:
        return await request.json()
    except json.JSONDecodeError:
        raise Unusual from None


async def usual(arguments: Arguments, request: Request) -> dict[str, Any] | None:
    """The values of all parameters of an endpoint by name; None for a call that FastAPI has to read."""
    try:
        return await arguments.of(request)
    except Unusual:
        return None


def _fields(fields: Sequence[Any]) -> list[_Field]:
    return [_Field(field, field.alias) for field in fields]


def arguments_of(route: APIRoute) -> Arguments | None:
    """None where FastAPI has to read each call: by a parameter of a kind that is not known here, or an answer that
    FastAPI makes."""
    is_answered = route.endpoint.__annotations__.get("return") == "Response"
    return Arguments(route.dependant) if is_answered and _is_known(route.dependant) else None


def _is_known(dependant: Dependant) -> bool:
    others = (
        dependant.cookie_params,
        dependant.websocket_param_name,
        dependant.http_connection_param_name,
        dependant.response_param_name,
        dependant.background_tasks_param_name,
        dependant.security_scopes_param_name,
        dependant.concurrency,
    )
    whole = [isinstance(each.field_info, Body) and not each.field_info.embed for each in dependant.body_params]
    return not any(others) and whole in ([], [True]) and all(map(_is_known_dependency, dependant.dependencies))


def _is_known_dependency(dependant: Dependant) -> bool:
    """Whether it gives a parameter, by a function that waits for nothing but the request and takes no body."""
    call = dependant.call
    is_async = iscoroutinefunction(call) or iscoroutinefunction(type(call).__call__)
    return bool(dependant.name) and is_async and not dependant.body_params and _is_known(dependant)
