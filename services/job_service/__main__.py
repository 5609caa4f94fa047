"""Starts the Job Service: `python -m services.job_service`."""

from __future__ import annotations

from penstock.control.clock import SystemClock
from penstock.control.logs import configure
from penstock.control.loop import LeaderLoop, Leadership
from penstock.store.election import StoreElection
from penstock.store.engine import connect
from penstock.store.migrate import upgrade
from penstock.wire.app import serve
from services.job_service.api import create_api
from services.job_service.expiry import LOOP, Expiry
from services.job_service.settings import JobServiceSettings
from services.job_service.writer import Writer


def main() -> None:
    """Brings the schema up to date, then serves until SIGTERM or SIGINT."""
    settings = JobServiceSettings()
    configure("job_service", log_format=settings.log_format, level=settings.log_level)
    upgrade(settings.database_url)
    engine = connect(settings.database_url, pool_size=settings.job_service_connections)
    clock = SystemClock()
    lease_seconds = settings.expiry_lease_seconds
    url = f"http://{settings.host}:{settings.port}"
    election = StoreElection(engine, LOOP, settings.identity(), url=url, lease_seconds=lease_seconds)
    expiry = Expiry(engine, Writer(engine, clock), clock, answers_kept=settings.idempotency_kept)
    loop = LeaderLoop(
        LOOP,
        expiry.round,
        Leadership(LOOP, election, lease_seconds, clock.monotonic),
        clock,
        period_seconds=settings.expiry_period_seconds,
        renew_seconds=lease_seconds / 3,
    )
    loop.start()
    try:
        serve(create_api(engine, clock, settings), settings.host, settings.port)
    finally:
        loop.stop()


if __name__ == "__main__":
    main()
