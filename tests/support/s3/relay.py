"""A relay before a real S3 server: it passes requests and answers on as they are, and can hold one up or cut it off.

Signatures stay right, since the host that a client has signed is sent on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import unquote, urlsplit

from penstock.local.ports import LOOPBACK
from tests.support.s3.server import CutOff, conf_of, served
from tests.support.s3.versitygw import Gateway

_OF_ONE_CONNECTION = {"connection", "expect", "keep-alive", "transfer-encoding"}
_SECONDS = 120.0


@dataclass
class Relay:
    """As `tests.support.s3.server.Store`, for a server in a process of its own."""

    gateway: Gateway
    before: Callable[[str, str], None] = lambda method, key: None
    after: Callable[[str, str], None] = lambda method, key: None
    port: int = 0

    def spark_conf(self) -> dict[str, str]:
        """Settings of a host that uses the server by this relay."""
        return conf_of(self.port)

    def objects(self, bucket: str) -> dict[str, bytes]:
        """The objects of a bucket by key; marks of folders are not among them."""
        root = self.gateway.root / bucket
        files = [path for path in root.rglob("*") if path.is_file() and not path.is_relative_to(root / ".sgwtmp")]
        return {str(path.relative_to(root)): path.read_bytes() for path in files}

    def names(self, bucket: str, prefix: str) -> list[str]:
        """The keys below a prefix, without it, in order."""
        return [key.removeprefix(prefix) for key in sorted(self.objects(bucket)) if key.startswith(prefix)]


@contextmanager
def relay(gateway: Gateway) -> Iterator[Relay]:
    """A relay on a free port of this machine, until the block ends."""
    told = Relay(gateway)
    handler = type("Handler", (_Handler,), {"relay": told})
    with served(handler) as told.port:
        yield told


class _Handler(BaseHTTPRequestHandler):
    relay: Relay
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None:
        """Says nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._pass_on
        raise AttributeError(name)

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        key = unquote(urlsplit(self.path).path).lstrip("/").partition("/")[2]
        try:
            self.relay.before(self.command, key)
            server = HTTPConnection(LOOPBACK, self.relay.gateway.port, timeout=_SECONDS)
            try:
                answer = self._ask(server, body)
                content = answer.read()
            finally:
                server.close()
            self.relay.after(self.command, key)
        except CutOff:
            self.close_connection = True
            return
        self._send(answer, content)

    def _ask(self, server: HTTPConnection, body: bytes) -> HTTPResponse:
        server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in _OF_ONE_CONNECTION:
                server.putheader(name, value)
        server.endheaders(body)
        return server.getresponse()

    def _send(self, answer: HTTPResponse, content: bytes) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in {*_OF_ONE_CONNECTION, "content-length"}:
                self.send_header(name, value)
        if answer.status != 204:
            length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
            self.send_header("Content-Length", length or "0")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
