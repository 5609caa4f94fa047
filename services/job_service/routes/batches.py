"""Many writes at once."""

from __future__ import annotations

from fastapi import APIRouter, Response
from sqlalchemy import Connection

from penstock.control.errors import InvalidConfig, UserError
from penstock.wire.jobs import Batch, BatchAction, BatchResults, BatchWrite
from services.job_service import access, requests
from services.job_service.access import Principal
from services.job_service.answers import Answer, batch_result
from services.job_service.requests import CallerOf, PartsOf, respond
from services.job_service.routes.layers import expiry_of
from services.job_service.writer import Outcome
from services.job_service.writes import BASE, Precondition, Verb, Write

router = APIRouter(tags=["jobs"], route_class=requests.StrictRoute)
_OF_JOBS = (BatchAction.PUT_JOB, BatchAction.DELETE_JOB)


@router.post("/v1/batches", response_model=BatchResults)
def post_batch(body: Batch, parts: PartsOf, caller: CallerOf) -> Response:
    """Does the writes in order, each by itself. A refused write changes nothing; the others are done."""
    checked = [_checked(write, caller.principal) for write in body.writes]

    def work(connection: Connection) -> Answer:
        done = iter(parts.writer.many(connection, [write for write in checked if isinstance(write, Write)]))
        outcomes: list[Outcome] = [write if isinstance(write, UserError) else next(done) for write in checked]
        results = BatchResults(results=[batch_result(outcome) for outcome in outcomes])
        return Answer(200, results.model_dump(mode="json"))

    return respond(parts.writer.run(caller, work))


def _checked(item: BatchWrite, principal: Principal) -> Write | UserError:
    try:
        write = _write(item, principal.name)
        access.require_layer(principal, write.layer)
        if write.verb is Verb.DELETE_JOB:
            access.require_role(principal, access.MAY_DELETE_JOBS)
    except UserError as error:
        return error
    return write


def _write(item: BatchWrite, author: str) -> Write:
    if item.layer is None and item.action not in _OF_JOBS:
        raise InvalidConfig(f"{item.action} needs a layer", field="layer", rule="required")
    return Write(
        Verb(item.action.value),
        item.job,
        author,
        BASE if item.action in _OF_JOBS or item.layer is None else item.layer,
        None if item.action is BatchAction.DROP else item.config,
        item.reason,
        _precondition(item),
        expiry_of(item),
    )


def _precondition(item: BatchWrite) -> Precondition:
    if item.action is BatchAction.PUT_JOB and item.if_match == 0:
        return Precondition(must_be_new=True)
    return Precondition(if_match=item.if_match)
