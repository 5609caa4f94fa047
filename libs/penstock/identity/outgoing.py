"""How a client shows who calls: by its certificate where TLS is, by a signed statement on this machine."""

from __future__ import annotations

from collections.abc import Generator
from functools import cache, partial
from ipaddress import ip_address

import httpx

from penstock.control.logs import logger
from penstock.identity.process import ProcessIdentity
from penstock.identity.renewing import RenewingTransport
from penstock.identity.roles import Caller
from penstock.identity.statements import HEADER

log = logger(__name__)
KEPT_SECONDS = 30.0
"""How long an unused connection is kept: longer than the pause between two heartbeats or reports, since a TLS handshake
costs more than such a call, and shorter than servers keep it."""


class Outgoing:
    """The calls of one process: an `Identity` of `penstock.wire.http`."""

    def __init__(self, identity: ProcessIdentity) -> None:
        self._identity = identity

    @property
    def caller(self) -> Caller:
        """Who calls."""
        return self._identity.caller

    def credentials(self) -> tuple[httpx.Auth, httpx.BaseTransport]:
        """See `penstock.wire.http.Identity`. New connections use the newest certificate."""
        identity = self._identity
        limits = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=KEPT_SECONDS)

        def make() -> httpx.HTTPTransport:
            return httpx.HTTPTransport(verify=identity.client_context(), trust_env=False, limits=limits)

        return StatementAuth(identity), RenewingTransport(
            make, identity.version, _tell, partial(identity.version, at_once=True)
        )


def _tell(error: Exception) -> None:
    log.warning("new files not usable, the connections before stay", error=str(error))


class StatementAuth(httpx.Auth):
    """Signs calls without TLS. A statement never goes to another machine, where somebody might read it on the way."""

    requires_request_body = True

    def __init__(self, identity: ProcessIdentity) -> None:
        self._identity = identity

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """See `httpx.Auth`."""
        if request.url.scheme == "http" and is_this_machine(request.url.host):
            target = request.url.raw_path.decode("ascii")
            request.headers[HEADER] = self._identity.statement(request.method, target, request.content)
        yield request


@cache
def is_this_machine(host: str) -> bool:
    """Whether a host of a URL is this machine, by its name."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
