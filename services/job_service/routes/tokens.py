"""Tokens; for admins only."""

from __future__ import annotations

from fastapi import APIRouter, Response
from sqlalchemy import Connection

from penstock.store import tokens
from penstock.store.engine import snapshot
from penstock.wire.tokens import TokenCreated, Tokens, TokenView, TokenWrite
from services.job_service import access, requests
from services.job_service.answers import Answer, answer
from services.job_service.requests import CallOf, PartsOf, PrincipalOf, respond

router = APIRouter(tags=["tokens"], route_class=requests.StrictRoute)


@router.post("/v1/tokens", response_model=TokenCreated, status_code=201)
def create_token(body: TokenWrite, call: CallOf) -> Response:
    """Creates a token. Only this answer contains it."""
    access.require_role(call.principal, access.MAY_ADMINISTER)
    layers = access.DEFAULT_LAYERS[body.role] if body.layers is None else tuple(body.layers)
    secrets: list[str] = []

    def work(connection: Connection) -> Answer:
        secrets.append(tokens.create(connection, body.name, body.role, layers))
        # The answer that is stored for the Idempotency-Key must not contain the secret.
        created = TokenCreated(name=body.name, role=body.role, layers=list(layers), token=None)
        return answer(201, created)

    done = call.run(work)
    shown = done.body | {"token": secrets[0] if secrets else None}
    return respond(Answer(done.status, shown, done.headers))


@router.get("/v1/tokens", response_model=Tokens)
def list_tokens(parts: PartsOf, principal: PrincipalOf) -> Tokens:
    """All tokens without their secrets, revoked ones too."""
    access.require_role(principal, access.MAY_ADMINISTER)
    with snapshot(parts.engine) as connection:
        rows = tokens.all_tokens(connection)
    return Tokens(tokens=[TokenView.model_validate(row) for row in rows])


@router.delete("/v1/tokens/{name}", status_code=204, response_class=Response)
def revoke_token(name: requests.TokenName, call: CallOf) -> Response:
    """Revokes a token; it is refused within a second. May be repeated."""
    access.require_role(call.principal, access.MAY_ADMINISTER)

    def work(connection: Connection) -> Answer:
        tokens.revoke(connection, name)
        return Answer(204, None)

    return respond(call.run(work))
