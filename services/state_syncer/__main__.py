"""The State Syncer process: `python -m services.state_syncer`."""

from __future__ import annotations

from penstock.control.logs import configure
from penstock.store.election import Listener
from penstock.store.engine import CHANGED_EXPECTED, REPORTED_STOP
from penstock.wire.app import create_app, serve
from services.state_syncer.settings import StateSyncerSettings
from services.state_syncer.wiring import build


def main() -> None:
    """Runs until SIGTERM or SIGINT."""
    settings = StateSyncerSettings()
    configure("state_syncer", log_format=settings.log_format, level=settings.log_level)
    loop = build(settings)
    listener = Listener(settings.notifications_url(), (CHANGED_EXPECTED, REPORTED_STOP), loop.wake)
    serve(create_app("state_syncer", ready=loop.status), settings.host, settings.port, loop, listener)


if __name__ == "__main__":
    main()
