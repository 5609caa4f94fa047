"""Secrets: who may use which. Their values are in files of the containers; no call takes or shows one."""

from __future__ import annotations

from typing import Annotated

from fastapi import Response
from sqlalchemy import Connection

from penstock.store.engine import snapshot
from penstock.wire.secrets import Secrets, SecretView, SecretWrite
from services.job_service import access, requests
from services.job_service.answers import Answer
from services.job_service.requests import CallOf, PartsOf, respond
from services.job_service.store import secrets

router = requests.router_of("secrets")
SecretName = Annotated[str, requests.is_name("secret"), requests.in_path("secret")]


@router.get("/v1/secrets", response_model=Secrets)
@requests.needs(access.of_role(access.MAY_ADMINISTER))
def list_secrets(parts: PartsOf) -> Secrets:
    """All secrets with the jobs that may use them; no values."""
    with snapshot(parts.engine) as connection:
        return Secrets(secrets=[SecretView.model_validate(row) for row in secrets.all_secrets(connection)])


@router.put("/v1/secrets/{secret}", status_code=204, response_class=Response)
@requests.needs(access.of_role(access.MAY_ADMINISTER))
def put_secret(secret: SecretName, body: SecretWrite, call: CallOf) -> Response:
    """Says which jobs may use a secret. 409 when a job uses it that then might not. May be repeated."""

    def work(connection: Connection) -> Answer:
        secrets.put(connection, secret, body.jobs, call.author, body.reason)
        return Answer(204, None)

    return respond(call.run(work))


@router.delete("/v1/secrets/{secret}", status_code=204, response_class=Response)
@requests.needs(access.of_role(access.MAY_ADMINISTER))
def delete_secret(secret: SecretName, call: CallOf, reason: requests.Text = "") -> Response:
    """From now on no job may use it. 409 while one does, 404 when there is none."""

    def work(connection: Connection) -> Answer:
        secrets.delete(connection, secret, call.author, reason)
        return Answer(204, None)

    return respond(call.run(work))
