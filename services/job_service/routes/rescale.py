"""How many tasks share a job's input, and which ranges of key groups each reads ("rebalance input" of Turbine)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

from fastapi import Query, Response
from sqlalchemy import Connection

from penstock.config.model import JobConfig
from penstock.control.errors import InvalidConfig
from penstock.model import traffic
from penstock.model.jobs import Action
from penstock.store.engine import snapshot
from penstock.tasks.spec import key_group_count
from penstock.wire.balance import BalanceView, MeasuredSeconds, Rebalanced, RebalanceWrite
from penstock.wire.jobs import RescaleWrite, Written
from services.job_service import access, balance, requests
from services.job_service.analyses import Question
from services.job_service.answers import Answer, answer
from services.job_service.calls import Call
from services.job_service.layer_expiry import Expiry, expiry_of
from services.job_service.requests import CallOf, JobName, PartsOf, expected_config, respond
from services.job_service.store import expected, overview
from services.job_service.store.layers import all_layers
from services.job_service.writes import Precondition, Write

router = requests.router_of("jobs")
Measured = Annotated[MeasuredSeconds, Query()]
MEASURED_SECONDS = 60


@router.post("/v1/jobs/{job}/rescale", response_model=Written, status_code=202)
@requests.needs(access.of_some_layer)
def rescale_job(job: JobName, body: RescaleWrite, call: CallOf) -> Response:
    """Sets `task_count` in `oncall`, or else in the highest layer that the token may write. The write does not expire
    unless `expires_in_seconds` is given. 409 when the layer has an expiry and the call gives none (null: never),
    and when other fields of the layer would end earlier by it, or stay for ever, unless `whole_layer` is true.
    With `balance` the call also sets `key_group_bounds` by the measured traffic; 409 when too little is measured. With
    `within_seconds` it sets `rescale_within_seconds`: how long tasks may take to finish their batches
    and to catch up. If they need longer, or are expected to, nothing is stopped and the job runs on.
    `/sync` shows the plan. Spark is asked before a job gets several tasks."""

    def work(connection: Connection, question: Question) -> Answer:
        layer = access.highest_layer(call.principal, all_layers(connection))
        expected.lock(connection, [job])
        write = rescale_write(connection, call, job, layer, body)
        return answer(202, call.write_in(connection, write, question))

    return respond(call.run_verified(work, verify=True))


def rescale_write(connection: Connection, call: Call, job: str, layer: str, body: RescaleWrite) -> Write:
    """The write that a rescale is. Raises InvalidConfig, NotFound, and Conflict when too little traffic is measured."""
    patch: dict[str, Any] = {"task_count": body.task_count}
    if body.within_seconds is not None:
        patch["rescale_within_seconds"] = body.within_seconds
    if body.balance and body.task_count > 1:
        patch["key_group_bounds"] = _bounds(connection, job, body.task_count, call.clock.now())
    return _patch(call, job, layer, patch, body.reason, expiry_of(body))


@router.get("/v1/jobs/{job}/rebalance", response_model=BalanceView)
def job_balance(job: JobName, parts: PartsOf, min_measured_seconds: Measured = MEASURED_SECONDS) -> BalanceView:
    """The traffic of the job by key group, and ranges that share it evenly. Writes nothing."""
    with snapshot(parts.engine) as connection:
        config = expected_config(connection, job)
        rates = _measured(connection, job, config, parts.clock.now(), min_measured_seconds)
    return balance.view(job, config, rates, balance.proposed(config, rates))


@router.post("/v1/jobs/{job}/rebalance", response_model=Rebalanced, status_code=202)
@requests.needs(access.of_some_layer)
def rebalance_job(job: JobName, body: RebalanceWrite, call: CallOf) -> Response:
    """Sets `key_group_bounds` by the measured traffic, in the same layer and with the same expiry as a rescale. 409
    when fewer than half of the key groups are measured, or the gain is below `min_gain`. `/sync` shows the plan."""

    def work(connection: Connection) -> Answer:
        layer = access.highest_layer(call.principal, all_layers(connection))
        expected.lock(connection, [job])
        config = expected_config(connection, job)
        rates = _measured(connection, job, config, call.clock.now(), body.min_measured_seconds)
        found = balance.require(rates, balance.proposed(config, rates))
        balance.require_gain(found, body.min_gain)
        patch = {"key_group_bounds": list(found.bounds)}
        written = write_patch(connection, call, job, layer, patch, body.reason, expiry_of(body))
        return answer(202, Rebalanced(**dict(balance.view(job, config, rates, found)), written=written), written)

    return respond(call.run(work))


def write_patch(
    connection: Connection,
    call: Call,
    job: str,
    layer: str,
    patch: Mapping[str, Any],
    reason: str,
    given: Expiry | None = None,
    *,
    allow_repeats: bool = False,
) -> Written:
    """Patches a layer as it is now.

    Without `given` the patch does not expire. Raises Conflict when the layer has an expiry and `given` is None.
    """
    write = _patch(call, job, layer, patch, reason, given)
    return call.write_in(connection, replace(write, allow_repeats=allow_repeats))


def _patch(call: Call, job: str, layer: str, patch: Mapping[str, Any], reason: str, given: Expiry | None) -> Write:
    any_version = Precondition(any_version=True)
    return Write(Action.PATCH, job, call.author, layer, patch, reason, any_version, given, stays=True)


def _bounds(connection: Connection, job: str, task_count: int, now: datetime) -> list[int]:
    """Inner bounds for this number of tasks, by the measured traffic."""
    config = expected_config(connection, job)
    if task_count > key_group_count(config):
        raise InvalidConfig(
            f"task_count {task_count} is above the {key_group_count(config)} key groups of the inputs",
            field="task_count",
            rule="key_groups",
        )
    rates = _measured(connection, job, config, now, MEASURED_SECONDS)
    return list(balance.require(rates, balance.proposed(config, rates, task_count)).bounds)


def _measured(connection: Connection, job: str, config: JobConfig, now: datetime, min_seconds: float) -> traffic.Rates:
    return traffic.measured(overview.reported_tasks(connection, job), config, now, min_seconds=min_seconds)
