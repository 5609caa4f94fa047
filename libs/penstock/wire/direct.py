"""Calls that thousands of containers make all the time: a body is read straight into its model, and nothing else is
looked at. Through FastAPI's parameters and response models such a call costs a server three times as much."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from penstock.identity.roles import Caller
from penstock.wire.gate import require_caller

Body = TypeVar("Body", bound=BaseModel)


def add_direct_call(
    app: FastAPI, path: str, body: type[Body], answer: Callable[[Body, Caller], Awaitable[BaseModel]]
) -> None:
    """`POST path` of an internal port. Errors are answered as those of other calls are."""

    async def call(request: Request) -> Response:
        """The call, from its body to its answer."""
        caller = require_caller(request)
        try:
            asked = body.model_validate_json(await request.body())
        except ValidationError as error:
            found = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
            raise RequestValidationError(found) from error
        answered = await answer(asked, caller)
        return Response(answered.model_dump_json(), media_type="application/json")

    app.add_route(path, call, methods=["POST"], include_in_schema=False)
