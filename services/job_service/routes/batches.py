"""Many writes at once."""

from __future__ import annotations

from fastapi import Response
from sqlalchemy import Connection

from penstock.control.errors import InvalidConfig, UserError
from penstock.model.jobs import Action
from penstock.wire.jobs import Batch, BatchAction, BatchResults, BatchWrite, RescaleWrite
from services.job_service import access, requests
from services.job_service.answers import Answer, answer, batch_result
from services.job_service.calls import Call
from services.job_service.layer_expiry import expiry_of
from services.job_service.requests import CallOf, respond
from services.job_service.routes.rescale import rescale_write
from services.job_service.store.layers import all_layers
from services.job_service.writer import Outcome, write_many
from services.job_service.writes import BASE, Layers, Precondition, Write

router = requests.router_of("jobs")
_OF_JOBS = {
    BatchAction.PUT_JOB: Action.CREATE,
    BatchAction.DELETE_JOB: Action.DELETE,
    BatchAction.RESTART: Action.RESTART,
    BatchAction.RELEASE: Action.RELEASE,
}
_OPERATIONS = (BatchAction.RESTART, BatchAction.RELEASE)


@router.post("/v1/batches", response_model=BatchResults)
@requests.needs(access.of_any_writer)
def post_batch(body: Batch, call: CallOf) -> Response:
    """Does the writes in order, each alone, with the rights that the single calls need. A refused write changes
    nothing; the others are done. Spark is not asked about any of them."""

    def work(connection: Connection) -> Answer:
        layers = all_layers(connection)
        checked = [_checked(connection, item, call, layers) for item in body.writes]
        allowed = [each for each in checked if isinstance(each, Write)]
        done = iter(write_many(connection, allowed, call.clock, call.began, call.path_roots))
        outcomes: list[Outcome] = [write if isinstance(write, UserError) else next(done) for write in checked]
        return answer(200, BatchResults(results=[batch_result(outcome) for outcome in outcomes]))

    return respond(call.run(work))


def _checked(connection: Connection, item: BatchWrite, call: Call, layers: Layers) -> Write | UserError:
    """The write that the caller may ask for, or why not."""
    try:
        if item.action in _OPERATIONS:
            access.require_role(call.principal, access.MAY_OPERATE)
            return _write(item, call.author)
        if item.action is BatchAction.RESCALE:
            layer = access.highest_layer(call.principal, layers)
            return rescale_write(connection, call, item.job, layer, _rescale(item))
        write = _write(item, call.author)
        access.require_layer(call.principal, write.layer)
        if write.action is Action.DELETE:
            access.require_role(call.principal, access.MAY_DELETE_JOBS)
    except UserError as error:
        return error
    return write


def _write(item: BatchWrite, author: str) -> Write:
    on_job = _OF_JOBS.get(item.action)
    if item.layer is None and on_job is None:
        raise _required(item, "layer")
    if item.action is BatchAction.REVERT and item.version is None:
        raise _required(item, "version")
    return Write(
        on_job or Action(item.action.value),
        item.job,
        author,
        BASE if on_job or item.layer is None else item.layer,
        None if item.action in (BatchAction.DROP, BatchAction.REVERT) else item.config,
        item.reason,
        _precondition(item),
        expiry_of(item),
        version=item.version,
        allow_repeats=item.allow_repeats,
    )


def _rescale(item: BatchWrite) -> RescaleWrite:
    """The body of the single call."""
    if item.task_count is None:
        raise _required(item, "task_count")
    shared = RescaleWrite.model_fields.keys() & item.model_fields_set
    return RescaleWrite.model_validate({name: getattr(item, name) for name in shared})


def _required(item: BatchWrite, field: str) -> InvalidConfig:
    return InvalidConfig(f"{item.action} needs {field}", field=field, rule="required")


def _precondition(item: BatchWrite) -> Precondition:
    if item.action is BatchAction.PUT_JOB and item.if_match == 0:
        return Precondition(must_be_new=True)
    return Precondition(if_match=item.if_match)
