"""An application served on a thread of the test."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from penstock.control.process import wait_until
from penstock.control.settings import HttpLimits
from penstock.wire.app import Server, connections


@contextmanager
def serving(
    app: Any, port: int = 0, tls: ssl.SSLContext | None = None, limits: HttpLimits | None = None
) -> Iterator[str]:
    """Serves `app` until the end of the block, on a free port unless told otherwise; its url. `tls`, `limits` of slow
    clients: as in the services."""
    options = {"log_level": "error", "access_log": False, "timeout_graceful_shutdown": 3}
    server = Server(uvicorn.Config(app, **options, **connections(tls, limits or HttpLimits())))
    with _tcp_socket(port) as listening:
        thread = threading.Thread(target=server.run, args=([listening],), name="serving", daemon=True)
        thread.start()
        try:
            wait_until(lambda: server.started, 20, "the server to start")
            yield f"{'http' if tls is None else 'https'}://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(timeout=10)


def _tcp_socket(port: int) -> socket.socket:
    """Says that it is TCP: only then does asyncio switch Nagle's algorithm off, which costs 40 ms an answer."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    return listening
