"""Starts the Job Service: `python -m services.job_service`."""

from __future__ import annotations

from datetime import timedelta

from prometheus_client import REGISTRY
from sqlalchemy import Engine

from penstock.control.clock import Clock, SystemClock
from penstock.control.logs import configure
from penstock.control.loop import LeaderLoop
from penstock.control.steps import in_turn
from penstock.identity.outgoing import Outgoing
from penstock.identity.process import identity_of
from penstock.identity.roles import Caller, Role
from penstock.store.election import LoopTimes, build_loop
from penstock.store.engine import engine_of
from penstock.store.migrate import upgrade
from penstock.wire.app import serve
from services.job_service.api import create_api
from services.job_service.expiry import LOOP, Expiry
from services.job_service.housekeeping import Housekeeping
from services.job_service.metrics import Fleet, OpenAlerts
from services.job_service.notify.loop import LOOP as NOTIFICATIONS
from services.job_service.notify.loop import Notifications
from services.job_service.notify.messages import Links
from services.job_service.notify.sender import Sender
from services.job_service.settings import JobServiceSettings


def main() -> None:
    """Brings the schema up to date, then serves until SIGTERM or SIGINT."""
    settings = JobServiceSettings()
    configure("job_service", log_format=settings.log_format, level=settings.log_level)
    identity = identity_of(settings, Caller(Role.JOB_SERVICE))
    upgrade(settings.notifications_url() or settings.database_url)
    engine = engine_of(settings, connections=settings.job_service_connections)
    clock = SystemClock()
    expiry = Expiry(
        engine,
        clock,
        answers_kept=timedelta(seconds=settings.idempotency_kept_seconds),
        admin_warning=timedelta(seconds=settings.job_service_admin_warning_seconds),
        path_roots=settings.path_roots,
    )
    housekeeping = Housekeeping(engine, clock, LOOP, settings.ages())

    lease = settings.expiry_lease_seconds
    times = LoopTimes(period=settings.expiry_period_seconds, lease=lease, renew=lease / 3)
    step = in_turn(expiry.round, housekeeping.round)
    loop = build_loop(LOOP, step, engine, clock, times, holder=settings.identity(), url=settings.url())
    notifications = _notifications(settings, engine, clock)
    alerts = OpenAlerts(engine, clock)
    app = create_api(engine, clock, settings, Outgoing(identity), identity.vouched)
    fleet = Fleet(engine, clock, app.state.parts.census)
    for counts in (alerts, fleet):
        REGISTRY.register(counts)
    # Users have tokens; a browser that is asked for a certificate asks its user.
    tls = identity.server_context(ask=False) if settings.serves_tls() else None
    serve(app, settings.host, settings.port, loop, notifications, alerts, fleet, tls=tls)


def _notifications(settings: JobServiceSettings, engine: Engine, clock: Clock) -> LeaderLoop:
    """The loop runs without targets, too: it ends what was to be sent to those that were taken away."""
    send = Sender().send
    told = Notifications(
        engine,
        clock,
        settings.notify_targets,
        send,
        gather_seconds=settings.notify_gather_seconds,
        links=Links(settings.notify_console_url, settings.runbook_url),
    )
    lease = settings.notify_lease_seconds
    times = LoopTimes(period=settings.notify_period_seconds, lease=lease, renew=lease / 3)
    holder, url = settings.identity(), settings.url()
    return build_loop(NOTIFICATIONS, told.round, engine, clock, times, holder=holder, url=url)


if __name__ == "__main__":
    main()
