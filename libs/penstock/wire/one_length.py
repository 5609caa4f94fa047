"""HTTP as our servers take it: a request says in one way only how long its body is."""

from __future__ import annotations

from typing import Any

import h11

_LENGTHS = frozenset([b"content-length", b"transfer-encoding"])


class OneLength(h11.Connection):
    """The server's side of a connection. h11 itself follows `Transfer-Encoding` where a request has both headers: a
    proxy that follows the other one would take the rest of the body for another client's request."""

    def next_event(self) -> Any:
        """See `h11.Connection`. Raises h11.RemoteProtocolError."""
        event = super().next_event()
        if isinstance(event, h11.Request) and _LENGTHS.issubset(name for name, _ in event.headers):
            raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding", error_status_hint=400)
        return event
