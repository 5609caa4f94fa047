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
    """

    def __init__(
        self,
        make: Callable[[], httpx.BaseTransport],
        version: Callable[[], object],
        tell: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        self._make = make
        self._version = version
        self._tell = tell
        self._lock = threading.Lock()
        self._known: tuple[object, httpx.BaseTransport] | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """See `httpx.BaseTransport`."""
        return self._newest().handle_request(request)

    def close(self) -> None:
        """Closes the connections."""
        with self._lock:
            known, self._known = self._known, None
        if known is not None:
            known[1].close()

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
