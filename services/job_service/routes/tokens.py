"""Tokens; for admins only."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from fastapi import Response
from sqlalchemy import Connection

from penstock.store import tokens
from penstock.store.engine import snapshot
from penstock.wire.tokens import TokenCreated, TokenRotate, Tokens, TokenView, TokenWrite
from services.job_service import access, requests
from services.job_service.answers import Answer, answer
from services.job_service.calls import Call
from services.job_service.requests import CallOf, PartsOf, respond

router = requests.router_of("tokens")


@router.post("/v1/tokens", response_model=TokenCreated, status_code=201)
@requests.needs(access.of_role(access.MAY_ADMINISTER))
def create_token(body: TokenWrite, call: CallOf) -> Response:
    """Creates a token. Only this answer contains it."""
    layers = access.DEFAULT_LAYERS[body.role] if body.layers is None else tuple(body.layers)
    ends = _expiry(call, body.expires_in_seconds)

    def create(connection: Connection) -> tuple[TokenCreated, str]:
        secret = tokens.create(
            connection, body.name, body.role, layers, expires_at=ends, author=call.author, reason=body.reason
        )
        return TokenCreated(name=body.name, role=body.role, layers=list(layers), expires_at=ends, token=None), secret

    return _showing_the_secret(call, 201, create)


@router.post("/v1/tokens/{name}/rotate", response_model=TokenCreated)
@requests.needs(access.of_role(access.MAY_ADMINISTER))
def rotate_token(name: requests.TokenName, body: TokenRotate, call: CallOf) -> Response:
    """Gives a token a new secret, which only this answer contains. The one before stays good for `overlap_seconds`, so
    that who uses it can take the new one in time. 409 for a token that was revoked, or has expired and gets no new
    expiry."""

    def rotate(connection: Connection) -> tuple[TokenCreated, str]:
        given = "expires_in_seconds" in body.model_fields_set
        ends = _expiry(call, body.expires_in_seconds) if given else tokens.require(connection, name).expires_at
        noted = {"author": call.author, "reason": body.reason}
        row, secret = tokens.rotate(connection, name, overlap_seconds=body.overlap_seconds, expires_at=ends, **noted)
        return TokenCreated(**dict(TokenView.model_validate(row)), token=None), secret

    return _showing_the_secret(call, 200, rotate)


@router.get("/v1/tokens", response_model=Tokens)
@requests.needs(access.of_role(access.MAY_ADMINISTER))
def list_tokens(parts: PartsOf) -> Tokens:
    """All tokens without their secrets, revoked and expired ones too."""
    with snapshot(parts.engine) as connection:
        rows = tokens.all_tokens(connection)
    return Tokens(tokens=[TokenView.model_validate(row) for row in rows])


@router.delete("/v1/tokens/{name}", status_code=204, response_class=Response)
@requests.needs(access.of_role(access.MAY_ADMINISTER))
def revoke_token(name: requests.TokenName, call: CallOf, reason: requests.Text = "") -> Response:
    """Revokes a token with all its secrets; it is refused within a second. May be repeated. 409 for the last admin
    token that can be used."""

    def work(connection: Connection) -> Answer:
        tokens.revoke(connection, name, author=call.author, reason=reason)
        return Answer(204, None)

    return respond(call.run(work))


def _showing_the_secret(call: Call, status: int, make: Callable[[Connection], tuple[TokenCreated, str]]) -> Response:
    """The answer of a call that makes a secret. What is stored for the Idempotency-Key must not contain it."""
    secrets: list[str] = []

    def work(connection: Connection) -> Answer:
        made, secret = make(connection)
        secrets.append(secret)
        return answer(status, made)

    done = call.run(work)
    shown = done.body | {"token": secrets[0] if secrets else None}
    return respond(Answer(done.status, shown, done.headers))


def _expiry(call: Call, seconds: int | None) -> datetime | None:
    return None if seconds is None else call.clock.now() + timedelta(seconds=seconds)
