"""The Auto Scaler process: `python -m services.auto_scaler`."""

from __future__ import annotations

from penstock.control.clock import SystemClock
from penstock.control.logs import configure
from penstock.control.loop import LeaderLoop
from penstock.store.election import LoopTimes, build_loop
from penstock.store.engine import engine_of
from penstock.wire.job_client import JobClient
from penstock.wire.leader import serve_loop
from services.auto_scaler.loop import AutoScaler
from services.auto_scaler.ports import JobServiceWriter, PostgresScalingStore
from services.auto_scaler.settings import AutoScalerSettings
from services.auto_scaler.store.decisions import AUTO_SCALER


def build(settings: AutoScalerSettings) -> LeaderLoop:
    """The loop with its parts."""
    clock = SystemClock()
    engine = engine_of(settings)
    writer = JobServiceWriter(JobClient(settings.job_service_url, settings.scaler_token.get_secret_value() or None))
    scaler = AutoScaler(PostgresScalingStore(engine), writer, clock.now, settings.scaler_policy)
    times = LoopTimes(
        period=settings.scaler_period_seconds,
        lease=settings.scaler_lease_seconds,
        renew=settings.scaler_renew_seconds,
    )
    url = f"http://{settings.host}:{settings.port}"
    return build_loop(AUTO_SCALER, scaler.round, engine, clock, times, holder=settings.identity(), url=url)


def main() -> None:
    """Runs until SIGTERM or SIGINT."""
    settings = AutoScalerSettings()
    configure(AUTO_SCALER, log_format=settings.log_format, level=settings.log_level)
    serve_loop(AUTO_SCALER, build(settings), settings.host, settings.port)


if __name__ == "__main__":
    main()
