"""Ranges of key groups that follow the measured traffic ("rebalance input", 002 section V)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from sqlalchemy import Connection

from penstock.store.engine import snapshot
from penstock.wire.balance import BalanceView, MeasuredSeconds, Rebalanced, RebalanceWrite
from services.job_service import access, balance, requests
from services.job_service.answers import Answer, write_answer
from services.job_service.requests import CallerOf, JobName, PartsOf, PrincipalOf, respond
from services.job_service.routes.layers import expiry_of
from services.job_service.routes.rescale import MEASURED_SECONDS, expected_config, rescale_write
from services.job_service.store import expected, overview
from services.job_service.store.layers import all_layers

router = APIRouter(tags=["jobs"], route_class=requests.StrictRoute)
Measured = Annotated[MeasuredSeconds, Query()]


@router.get("/v1/jobs/{job}/rebalance", response_model=BalanceView)
def job_balance(
    job: JobName, parts: PartsOf, _: PrincipalOf, min_measured_seconds: Measured = MEASURED_SECONDS
) -> BalanceView:
    """The traffic of the job by key group, and ranges that share it evenly. Writes nothing."""
    with snapshot(parts.engine) as connection:
        config = expected_config(connection, job)
        reports = overview.reported_tasks(connection, job)
    rates = balance.measured(reports, config, parts.clock.now(), min_seconds=min_measured_seconds)
    return balance.view(job, config, rates, balance.proposed(config, rates))


@router.post("/v1/jobs/{job}/rebalance", response_model=Rebalanced, status_code=202)
def rebalance_job(job: JobName, body: RebalanceWrite, parts: PartsOf, caller: CallerOf) -> Response:
    """Sets `key_group_bounds` by the measured traffic, in the same layer and with the same expiry as a rescale. 409
    when fewer than half of the key groups are measured, or the gain is below `min_gain`. `/sync` shows the plan."""

    def work(connection: Connection) -> Answer:
        layer = access.highest_layer(caller.principal, all_layers(connection))
        expected.lock(connection, [job])
        config = expected_config(connection, job)
        reports = overview.reported_tasks(connection, job)
        rates = balance.measured(reports, config, parts.clock.now(), min_seconds=body.min_measured_seconds)
        found = balance.require(rates, balance.proposed(config, rates))
        balance.require_gain(found, body.min_gain)
        patch = {"key_group_bounds": list(found.bounds)}
        author, given = caller.principal.name, expiry_of(body)
        written = parts.writer.one(connection, rescale_write(connection, job, layer, patch, author, body.reason, given))
        answer = Rebalanced(**dict(balance.view(job, config, rates, found)), written=written)
        return Answer(202, answer.model_dump(mode="json"), write_answer(202, written).headers)

    return respond(parts.writer.run(caller, work))
