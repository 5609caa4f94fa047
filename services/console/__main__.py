"""Starts the console: `python -m services.console`."""

from __future__ import annotations

from penstock.control.clock import SystemClock
from penstock.control.logs import configure
from penstock.identity.process import identity_of
from penstock.identity.roles import Caller, Role
from penstock.wire.app import serve
from services.console.api import create_console
from services.console.settings import ConsoleSettings


def main() -> None:
    """Serves until SIGTERM or SIGINT."""
    settings = ConsoleSettings()
    configure("console", log_format=settings.log_format, level=settings.log_level)
    tls = None
    if settings.serves_tls():
        # Users have tokens; a browser that is asked for a certificate asks its user.
        tls = identity_of(settings, Caller(Role.CONSOLE)).server_context(ask=False)
    serve(create_console(settings, SystemClock()), settings.host, settings.port, tls=tls)


if __name__ == "__main__":
    main()
