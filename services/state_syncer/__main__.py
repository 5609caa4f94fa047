"""The State Syncer process: `python -m services.state_syncer`."""

from __future__ import annotations

from penstock.control.logs import configure
from penstock.identity.outgoing import Outgoing
from penstock.identity.process import identity_of
from penstock.identity.roles import Caller, Role
from penstock.store.election import Listener
from penstock.store.engine import CHANGED_EXPECTED, REPORTED_STOP
from penstock.wire.app import create_internal_app, serve, tls_of
from services.state_syncer.settings import StateSyncerSettings
from services.state_syncer.wiring import build


def main() -> None:
    """Runs until SIGTERM or SIGINT."""
    settings = StateSyncerSettings()
    configure("state_syncer", log_format=settings.log_format, level=settings.log_level)
    identity = identity_of(settings, Caller(Role.STATE_SYNCER))
    loop = build(settings, Outgoing(identity))
    listener = Listener(settings.notifications_url(), (CHANGED_EXPECTED, REPORTED_STOP), loop.wake)
    app = create_internal_app("state_syncer", ready=loop.status, identity=identity, open_metrics=settings.metrics_open)
    serve(app, settings.host, settings.port, loop, listener, tls=tls_of(identity))


if __name__ == "__main__":
    main()
