"""The graph of jobs and topics around a job."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from penstock.store.engine import snapshot
from penstock.wire.lineage import DEFAULT_DEPTH, MOST_DEPTH, Lineage, LineageJob
from services.job_service import requests
from services.job_service.lineage import shape
from services.job_service.requests import JobName, PartsOf, known_job
from services.job_service.store import jobs, lags
from services.job_service.store.lineage import read_around, read_stores

router = requests.router_of("one job")
Depth = Annotated[int, Query(ge=1, le=MOST_DEPTH, description="how many jobs away the graph ends")]


@router.get("/v1/jobs/{job}/lineage", response_model=Lineage)
def job_lineage(job: JobName, parts: PartsOf, depth: Depth = DEFAULT_DEPTH) -> Lineage:
    """The jobs upstream and downstream of a job, with the topics between them. Of more than 200 jobs the nearest."""
    with snapshot(parts.engine) as connection:
        known_job(connection, job)
        found, complete = read_around(connection, job, depth)
        drawn = shape(found, read_stores(connection, found))
        distances = {flow.job: distance for flow, distance in found}
        shown = lags.with_lags(connection, jobs.named(connection, list(distances)))
    nodes = [LineageJob(**dict(each), distance=distances[each.job]) for each in shown]
    return Lineage(
        job=job,
        depth=depth,
        complete=complete,
        jobs=sorted(nodes, key=lambda node: (node.distance, node.job)),
        datasets=drawn.datasets,
        edges=drawn.edges,
    )
