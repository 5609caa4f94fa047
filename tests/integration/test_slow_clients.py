"""Clients that send too slowly, or do not read: they are cut off, and others are served meanwhile. Raw sockets."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn
from fastapi import FastAPI, Request, Response
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from penstock.control.period import Tally
from penstock.control.process import wait_until
from penstock.control.settings import HttpLimits
from penstock.identity.process import ProcessIdentity
from penstock.identity.roles import Caller, Role
from penstock.wire import slow_clients
from penstock.wire.app import connections, create_app
from penstock.wire.http import certificates, trusting
from tests.support.control.serving import serving
from tests.support.identity import make_cell

NEVER = 3600.0
LARGE_BYTES = 64 * 2**20
WAIT_SECONDS = 30.0
SERVER = Caller(Role.TASK_SERVICE)


def _app() -> FastAPI:
    app = create_app("slow", ready=dict)

    @app.post("/bodies")
    async def take_body(request: Request) -> int:
        return len(await request.body())

    @app.get("/threads")
    def on_a_thread() -> str:
        return "here"

    @app.get("/large")
    async def large() -> Response:
        return Response(b"x" * LARGE_BYTES)

    @app.post("/unread", status_code=401)
    async def unread() -> str:
        return "no"

    return app


@contextmanager
def _served(
    header: float = NEVER, body: float = NEVER, most: int = 1000, tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    with serving(_app(), tls=tls, limits=HttpLimits(header, body, most)) as url:
        yield url


def _connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((str(parts.hostname), parts.port or 0), timeout=WAIT_SECONDS)


def _send(url: str, text: str) -> socket.socket:
    client = _connect(url)
    client.sendall(text.replace("\n", "\r\n").encode())
    return client


@pytest.fixture
def cell(tmp_path: Path) -> Path:
    """The identity of the server, for ports with TLS."""
    folder = make_cell(tmp_path / "identity")
    folder.issue(SERVER, ["127.0.0.1"], datetime.now(UTC))
    return folder.path


@pytest.fixture
def tls(cell: Path) -> ssl.SSLContext:
    return ProcessIdentity(cell, SERVER, tls=True).server_context()


def _until_closed(client: socket.socket) -> bytes:
    """All that the server sent. A server that does not close is a time-out of the socket, so a failed test."""
    received = b""
    try:
        while part := client.recv(65_536):
            received += part
    except ConnectionResetError:
        pass
    return received


UNFINISHED_HEADERS = "POST /bodies HTTP/1.1\nHost: x\nX-Slow: "
UNFINISHED_BODY = "POST /bodies HTTP/1.1\nHost: x\nContent-Length: 100\n\nabc"
UNFINISHED_CHUNKS = "POST /bodies HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n3\nabc\n"
SECOND_REQUEST = "GET /healthz HTTP/1.1\nHost: x\n\nGET /healthz HTTP/1.1\nHo"


@pytest.mark.parametrize("order", ["{0}\n{1}", "{1}\n{0}"], ids=["length first", "encoding first"])
def test_a_request_with_two_lengths_is_refused(order: str) -> None:
    """What follows is no request of its own, as a proxy that follows the other header would take it."""
    headers = order.format("Content-Length: 3", "TRANSFER-encoding: chunked")
    sent = f"POST /bodies HTTP/1.1\nHost: x\n{headers}\n\n0\n\nGET /healthz HTTP/1.1\nHost: x\n\n"
    with _served() as url, _send(url, sent) as client:
        answer = _until_closed(client)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("sent", ["", UNFINISHED_HEADERS, SECOND_REQUEST], ids=["nothing", "headers", "second"])
def test_headers_that_do_not_end_are_cut_off(sent: str) -> None:
    with _served(header=0.2) as url, _send(url, sent) as client:
        assert b"HTTP/1.1 408 " in _until_closed(client)


@pytest.mark.parametrize("sent", [UNFINISHED_BODY, UNFINISHED_CHUNKS], ids=["length", "chunks"])
def test_a_body_that_does_not_end_is_cut_off(sent: str) -> None:
    with _served(body=0.2) as url, _send(url, sent) as client:
        assert _until_closed(client).startswith(b"HTTP/1.1 408 ")


def test_a_byte_now_and_then_gains_no_time() -> None:
    """The client sends a byte each time before it looks, until the server has had enough."""
    with _served(body=0.3) as url, _send(url, UNFINISHED_BODY) as client:
        client.settimeout(0.05)
        answer = b""
        for _ in range(90):
            try:
                answer = client.recv(1000)
                break
            except TimeoutError:
                client.sendall(b"x")
        assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_body_that_goes_on_after_its_answer_is_cut_off() -> None:
    """The answer came without the body, as one of a caller without a token does; keep-alive does not save the rest."""
    with _served(body=0.3) as url, _send(url, UNFINISHED_BODY.replace("/bodies", "/unread")) as client:
        assert _until_closed(client).startswith(b"HTTP/1.1 401 ")


def test_a_client_that_does_not_read_is_cut_off() -> None:
    before = _cut_off("reader")
    with _served(body=0.3) as url, _send(url, "GET /large HTTP/1.1\nHost: x\n\n") as client:
        wait_until(lambda: _cut_off("reader") > before, WAIT_SECONDS, "the reader to be cut off")
        assert len(_until_closed(client)) < LARGE_BYTES


def test_a_flood_of_cut_off_clients_is_one_line_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_clients, "_slow_told", Tally(60.0))
    before = _cut_off("headers")
    connection: Any = SimpleNamespace(transport=SimpleNamespace(get_extra_info=lambda _: ("127.0.0.1", 1)))
    with capture_logs() as lines:
        for second in (0.0, 1.0, 59.0, 60.0):
            slow_clients.note_cut_off(connection, slow_clients.Wait.HEADERS, second)
    assert [line["count"] for line in lines] == [1, 3]
    assert _cut_off("headers") == before + 4


def _cut_off(waited_for: str) -> float:
    return REGISTRY.get_sample_value("http_clients_cut_off_total", {"waited_for": waited_for}) or 0.0


def test_many_slow_clients_take_no_thread_and_keep_nobody_out() -> None:
    """More unfinished requests than the server has threads, and more than it may have connections: the others are
    answered, those that have waited for the longest time make room."""
    with _served(most=120) as url, ExitStack() as open_sockets:
        slow = [open_sockets.enter_context(_send(url, UNFINISHED_BODY)) for _ in range(100)]
        slow += [open_sockets.enter_context(_send(url, UNFINISHED_HEADERS)) for _ in range(100)]
        with httpx.Client(base_url=url, verify=certificates(), timeout=WAIT_SECONDS) as caller:
            assert caller.get("/threads").json() == "here"
            assert caller.post("/bodies", content=b"abc").json() == 3
        assert _until_closed(slow[0]).startswith(b"HTTP/1.1 408 ")
        slow[-1].sendall(b"1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        assert _until_closed(slow[-1]).startswith(b"HTTP/1.1 200 ")


def test_when_all_connections_are_at_work_a_further_one_is_refused() -> None:
    began, release = threading.Event(), threading.Event()
    app = _app()

    @app.get("/long")
    def long() -> str:
        began.set()
        release.wait(WAIT_SECONDS)
        return "done"

    request = "GET /long HTTP/1.1\nHost: x\nConnection: close\n\n"
    with serving(app, limits=HttpLimits(NEVER, NEVER, 1)) as url, _send(url, request) as first:
        assert began.wait(WAIT_SECONDS)
        with _connect(url) as second:
            assert b" 503 " in _until_closed(second)
        release.set()
        assert b"done" in _until_closed(first)


@pytest.mark.parametrize("sent", [UNFINISHED_HEADERS, UNFINISHED_BODY], ids=["headers", "body"])
def test_a_port_with_tls_has_the_same_limits(cell: Path, tls: ssl.SSLContext, sent: str) -> None:
    context = trusting(cell / "authority.crt")
    with (
        _served(header=0.5, body=0.2, tls=tls) as url,
        _connect(url) as raw,
        context.wrap_socket(raw, server_hostname="127.0.0.1") as client,
    ):
        client.sendall(sent.replace("\n", "\r\n").encode())
        assert client.recv(1000).startswith(b"HTTP/1.1 408 ")


CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01"
"""The first bytes of one."""


@pytest.mark.parametrize("sent", [b"", CLIENT_HELLO], ids=["nothing", "a part"])
def test_a_handshake_that_does_not_end_is_cut_off(tls: ssl.SSLContext, sent: bytes) -> None:
    before = _cut_off("handshake")
    with _served(header=0.2, tls=tls) as url, _connect(url) as client:
        client.sendall(sent)
        assert _until_closed(client) == b""
        wait_until(lambda: _cut_off("handshake") == before + 1, WAIT_SECONDS, "the client to be counted")


def test_clients_without_a_handshake_keep_nobody_out(cell: Path, tls: ssl.SSLContext) -> None:
    """They count as connections from the first moment on, and make room for others."""
    with _served(most=20, tls=tls) as url, ExitStack() as open_sockets:
        silent = [open_sockets.enter_context(_connect(url)) for _ in range(60)]
        with httpx.Client(base_url=url, verify=trusting(cell / "authority.crt"), timeout=WAIT_SECONDS) as caller:
            assert caller.get("/threads").json() == "here"
            assert caller.post("/bodies", content=b"x" * 100_000).json() == 100_000
        for client in silent[:40]:
            assert _until_closed(client) == b""
        silent[-1].settimeout(0.0)
        with pytest.raises(BlockingIOError):
            silent[-1].recv(1)


def test_a_port_takes_no_loop_that_ends_no_handshake(tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """uvicorn takes uvloop where it is installed."""
    monkeypatch.setitem(sys.modules, "uvloop", ModuleType("uvloop"))
    factory = uvicorn.Config(_app(), **connections(tls, HttpLimits())).get_loop_factory()
    assert factory is asyncio.SelectorEventLoop


def test_a_server_with_tls_ends_while_clients_have_no_handshake(tls: ssl.SSLContext) -> None:
    with ExitStack() as open_sockets:
        with _served(tls=tls) as url:
            client = open_sockets.enter_context(_connect(url))
        assert _until_closed(client) == b""
