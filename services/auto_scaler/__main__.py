"""The Auto Scaler process: `python -m services.auto_scaler`."""

from __future__ import annotations

from penstock.control.clock import SystemClock
from penstock.control.logs import configure
from penstock.identity.process import identity_of
from penstock.identity.roles import Caller, Role
from penstock.store.election import LoopTimes, build_loop
from penstock.store.engine import engine_of
from penstock.wire.app import serve, tls_of
from penstock.wire.job_client import JobClient
from services.auto_scaler.api import build_app
from services.auto_scaler.loop import AutoScaler
from services.auto_scaler.replays import Replays
from services.auto_scaler.settings import AutoScalerSettings
from services.auto_scaler.store.decisions import AUTO_SCALER
from services.auto_scaler.store.port import ScalingStore


def main() -> None:
    """Runs until SIGTERM or SIGINT."""
    settings = AutoScalerSettings()
    configure(AUTO_SCALER, log_format=settings.log_format, level=settings.log_level)
    identity = identity_of(settings, Caller(Role.AUTO_SCALER))
    clock = SystemClock()
    engine = engine_of(settings)
    token = settings.scaler_token.get_secret_value() or None
    jobs = JobClient(settings.job_service_url, token, authority=settings.trusted())
    store = ScalingStore(engine)
    scaler = AutoScaler(store, jobs, clock.now, settings.scaler_policy)
    times = LoopTimes(
        period=settings.scaler_period_seconds,
        lease=settings.scaler_lease_seconds,
        renew=settings.scaler_renew_seconds,
    )
    url = settings.address(settings.port, settings.public_url)
    loop = build_loop(AUTO_SCALER, scaler.round, engine, clock, times, holder=settings.identity(), url=url)
    replays = Replays(store, clock.now, settings.scaler_policy)
    app = build_app(replays, ready=loop.status, identity=identity, open_metrics=settings.metrics_open)
    serve(app, settings.host, settings.port, loop, tls=tls_of(identity))


if __name__ == "__main__":
    main()
