"""A webhook on a real port, which keeps what it gets."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from services.job_service.notify.messages import DELIVERY, SIGNATURE


@dataclass(frozen=True, slots=True)
class Received:
    """A request."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def delivery(self) -> str:
        return self.headers[DELIVERY]

    @property
    def signature(self) -> str | None:
        return self.headers.get(SIGNATURE)


@dataclass
class Webhook:
    """Answers with `status`; before that it calls `before_answer`."""

    url: str = ""
    status: int = 200
    before_answer: Callable[[], object] = lambda: None
    received: list[Received] = field(default_factory=list)

    def events(self) -> list[tuple[str, str]]:
        """Of requests of the shape `json`: each event with its subject, in the order of arrival."""
        return [(alert["event"], alert["subject"]) for request in self.received for alert in request.json["alerts"]]


@contextmanager
def webhook() -> Iterator[Webhook]:
    """Listens on a free port until the end of the block."""
    found = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.received.append(Received(self.path, dict(self.headers.items()), body))
            found.before_answer()
            self.send_response(found.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield found
        server.shutdown()
        thread.join()
