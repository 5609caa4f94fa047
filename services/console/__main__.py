"""Starts the console: `python -m services.console`."""

from __future__ import annotations

from penstock.control.clock import SystemClock
from penstock.control.errors import TerminalError
from penstock.control.logs import configure, logger
from penstock.identity.process import ProcessIdentity, identity_of
from penstock.identity.roles import Caller, Role
from penstock.wire.app import serve
from services.console.api import create_console
from services.console.settings import ConsoleSettings

log = logger(__name__)


def main() -> None:
    """Serves until SIGTERM or SIGINT."""
    settings = ConsoleSettings()
    configure("console", log_format=settings.log_format, level=settings.log_level)
    identity = _identity(settings)
    # Users have tokens; a browser that is asked for a certificate asks its user.
    tls = identity.server_context(ask=False) if identity is not None and settings.serves_tls() else None
    serve(create_console(settings, SystemClock(), identity), settings.host, settings.port, tls=tls)


def _identity(settings: ConsoleSettings) -> ProcessIdentity | None:
    """None: a console that only this machine reaches, whose browsers have no other address than this machine's; or one
    behind a proxy that has no certificate. Raises SystemExit where TLS needs one."""
    if settings.serves_tls():
        return identity_of(settings, Caller(Role.CONSOLE))
    if not settings.uses_tls():
        return None
    found = ProcessIdentity(settings.identity_folder(), Caller(Role.CONSOLE), tls=True)
    try:
        found.require()
    except TerminalError as error:
        log.warning("the audit log will not have addresses of browsers", error=str(error))
        return None
    return found


if __name__ == "__main__":
    main()
