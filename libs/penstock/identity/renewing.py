"""Connections of an HTTP client that are made anew when the files change by which they were made."""

from __future__ import annotations

import threading
from collections.abc import Callable

import httpx

from penstock.control.errors import PenstockError


class RenewingTransport(httpx.BaseTransport):
    """Connections of `make()`, made anew when `version()` has changed. Those in use end with their requests.

    When `make()` fails, as between the writes of two files, the connections before stay until `version()` changes
    again, and `tell` is called with the error. Without any before, its error is raised.

    A server that trusts a connection no more answers 401 and closes it. Then `look`, where given, finds the version
    that counts now, and if it is another one the request is sent once more, by the new files.
    """

    def __init__(
        self,
        make: Callable[[], httpx.BaseTransport],
        version: Callable[[], object],
        tell: Callable[[Exception], None] = lambda _: None,
        look: Callable[[], object] | None = None,
    ) -> None:
        self._make = make
        self._version = version
        self._tell = tell
        self._look = look
        self._lock = threading.Lock()
        self._known: tuple[object, httpx.BaseTransport] | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """See `httpx.BaseTransport`."""
        used = self._newest()
        response = used.handle_request(request)
        if not (_is_refused(response) and isinstance(request.stream, httpx.ByteStream) and self._has_newer(used)):
            return response
        response.close()
        return self._newest().handle_request(request)

    def close(self) -> None:
        """Closes the connections."""
        with self._lock:
            known, self._known = self._known, None
        if known is not None:
            known[1].close()

    def _has_newer(self, used: httpx.BaseTransport) -> bool:
        if self._look is None:
            return False
        self._look()
        return self._newest() is not used

    def _newest(self) -> httpx.BaseTransport:
        version = self._version()
        with self._lock:
            if self._known is None or self._known[0] != version:
                self._known = (version, self._made(self._known))
            return self._known[1]

    def _made(self, known: tuple[object, httpx.BaseTransport] | None) -> httpx.BaseTransport:
        try:
            return self._make()
        except (PenstockError, OSError) as error:
            if known is None:
                raise
            self._tell(error)
            return known[1]


def _is_refused(response: httpx.Response) -> bool:
    return response.status_code == 401 and response.headers.get("connection", "").lower() == "close"
