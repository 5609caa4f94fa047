"""Whether all parts of the cell are well."""

from __future__ import annotations

import time

from penstock.store.engine import snapshot
from penstock.store.migrate import head
from penstock.wire.status import StatusView
from services.job_service import requests
from services.job_service.cell_facts import CellFacts
from services.job_service.cell_status import Seen, status_of
from services.job_service.requests import PartsOf
from services.job_service.store.cell import read_cell

router = requests.router_of("cluster")


@router.get("/v1/status", response_model=StatusView)
def status(parts: PartsOf) -> StatusView:
    """Leaders with the age of their last rounds, services, the store, Kafka, containers and open alerts; what to do
    about each that is not well. A part that is well may have advice too, as for a container that is lost."""
    begun_at = time.perf_counter()
    with snapshot(parts.engine) as connection:
        cell = read_cell(connection)
    store_seconds = time.perf_counter() - begun_at
    probes = parts.probes
    services = probes.services(_addresses(cell, probes.task_service_urls))
    return status_of(Seen(cell, services, probes.buses(), head(), store_seconds, probes.reports_old_seconds))


def _addresses(cell: CellFacts, task_services: tuple[str, ...]) -> dict[str, str]:
    """The services that are known by their leases or by the settings."""
    many = len(task_services) > 1
    named = {f"task_service {url}" if many else "task_service": url for url in task_services}
    led = {leader.loop: leader.url for leader in cell.leaders if leader.url and "." not in leader.loop}
    return named | led
