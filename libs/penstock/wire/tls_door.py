"""TLS on a port, so that a connection counts and has a limit from its first moment on.

uvicorn knows a connection only after its handshake, which asyncio lets take a minute: clients that never begin it could
take all the files that the process may open. Here the connection is one of uvicorn's at once, and the slow client guard
(`slow_clients`) closes it as any other.
"""

from __future__ import annotations

import asyncio
import ssl
from functools import partial
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from penstock.control.logs import logger
from penstock.control.settings import HttpLimits
from penstock.wire.slow_clients import Wait, Waiting, has_room, note_cut_off

log = logger(__name__)


def behind_tls(http: type[H11Protocol], limits: HttpLimits, tls: ssl.SSLContext) -> type[asyncio.Protocol]:
    """The protocol class for uvicorn that speaks TLS with this context, and `http` in it."""
    return type("TlsConnection", (TlsDoor,), {"http": http, "limits": limits, "tls": tls})


class TlsDoor(asyncio.Protocol, Waiting):
    """One connection until its TLS handshake is over. uvicorn by itself would neither count it nor limit its time."""

    limits = HttpLimits()
    tls: ssl.SSLContext
    http: type[H11Protocol]

    def __init__(self, server_state: ServerState, **kwargs: Any) -> None:
        self.connections: set[Any] = server_state.connections
        self.waits_for: Wait | None = Wait.HANDSHAKE
        self._make = partial(self.http, server_state=server_state, **kwargs)
        self._early: list[bytes] = []
        self._inner: H11Protocol | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins the handshake, if there is room for the connection."""
        loop = asyncio.get_running_loop()
        self.transport, self.since = transport, loop.time()
        self.connections.add(self)
        if has_room(self.connections, self, self.limits):
            self._opening = loop.create_task(self._open(loop))
        else:
            self.shutdown()

    def data_received(self, data: bytes) -> None:
        """What came with the end of the handshake."""
        self._early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """The end, during the handshake or just after it."""
        self.connections.discard(self)
        if self._inner is not None:
            self._inner.connection_lost(exc)

    def shutdown(self) -> None:
        """As of any connection of uvicorn, when the server ends."""
        self.connections.discard(self)
        self.transport.abort()

    def cut_off(self) -> None:
        """See `Waiting`."""
        note_cut_off(self, Wait.HANDSHAKE, asyncio.get_running_loop().time())
        self.shutdown()

    async def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        seconds = self.limits.header_seconds
        try:
            secure = await loop.start_tls(
                self.transport,
                self,
                self.tls,
                server_side=True,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=seconds,
            )
        except OSError as error:
            if loop.time() - self.since >= seconds:
                note_cut_off(self, Wait.HANDSHAKE, loop.time())
            log.debug("no handshake", error=str(error))
            # It leads to asyncio's frames, and these to it: the connection's buffers would stay until a collection.
            error.__traceback__ = None
            self.shutdown()
            return
        self.connections.discard(self)
        if secure is None or secure.is_closing():
            return
        self._inner = self._make()
        self._inner.connection_made(secure)
        secure.set_protocol(self._inner)
        for data in self._early:
            self._inner.data_received(data)
