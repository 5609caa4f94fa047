"""Many writes at once."""

from __future__ import annotations

from fastapi import APIRouter, Response
from sqlalchemy import Connection

from penstock.control.errors import InvalidConfig, UserError
from penstock.model.jobs import Action
from penstock.wire.jobs import Batch, BatchAction, BatchResults, BatchWrite
from services.job_service import access, requests
from services.job_service.access import Principal
from services.job_service.answers import Answer, answer, batch_result
from services.job_service.layer_expiry import expiry_of
from services.job_service.requests import CallOf, respond
from services.job_service.writer import Outcome, write_many
from services.job_service.writes import BASE, Precondition, Write

router = APIRouter(tags=["jobs"], route_class=requests.StrictRoute)
_OF_JOBS = {BatchAction.PUT_JOB: Action.CREATE, BatchAction.DELETE_JOB: Action.DELETE}


@router.post("/v1/batches", response_model=BatchResults)
def post_batch(body: Batch, call: CallOf) -> Response:
    """Does the writes in order, each alone. A refused write changes nothing; the others are done."""
    checked = [_checked(write, call.principal) for write in body.writes]

    def work(connection: Connection) -> Answer:
        allowed = [write for write in checked if isinstance(write, Write)]
        done = iter(write_many(connection, allowed, call.clock, call.began, call.path_roots))
        outcomes: list[Outcome] = [write if isinstance(write, UserError) else next(done) for write in checked]
        return answer(200, BatchResults(results=[batch_result(outcome) for outcome in outcomes]))

    return respond(call.run(work))


def _checked(item: BatchWrite, principal: Principal) -> Write | UserError:
    try:
        write = _write(item, principal.name)
        access.require_layer(principal, write.layer)
        if write.action is Action.DELETE:
            access.require_role(principal, access.MAY_DELETE_JOBS)
    except UserError as error:
        return error
    return write


def _write(item: BatchWrite, author: str) -> Write:
    on_job = _OF_JOBS.get(item.action)
    if item.layer is None and on_job is None:
        raise InvalidConfig(f"{item.action} needs a layer", field="layer", rule="required")
    return Write(
        on_job or Action(item.action.value),
        item.job,
        author,
        BASE if on_job or item.layer is None else item.layer,
        None if item.action is BatchAction.DROP else item.config,
        item.reason,
        _precondition(item),
        expiry_of(item),
    )


def _precondition(item: BatchWrite) -> Precondition:
    if item.action is BatchAction.PUT_JOB and item.if_match == 0:
        return Precondition(must_be_new=True)
    return Precondition(if_match=item.if_match)
