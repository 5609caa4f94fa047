"""A server does not wait for ever for a client, and slow clients do not keep others out.

A connection waits for its client while headers or a body are incomplete, while the client does not read its answer,
between two requests, and during a TLS handshake (`tls_door`). Each wait but that between requests, which uvicorn ends,
has a limit here. Nothing of this takes a thread. When there are too many connections, the one that has waited for its
client for the longest time is closed for the new one.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Collection
from enum import StrEnum
from typing import Any

import h11
from prometheus_client import Counter
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.control.logs import logger
from penstock.control.period import Tally
from penstock.control.settings import HttpLimits
from penstock.wire.one_length import OneLength
from penstock.wire.peers import PeerProtocol

log = logger(__name__)
_OTHER_FILES = 128
TELL_EVERY_SECONDS = 60.0
_cut_off = Counter("http_clients_cut_off", "connections that were closed because the client was slow", ["waited_for"])
_invalid = Counter("http_invalid_requests", "requests that were refused because they are not valid HTTP")
_slow_told, _invalid_told = Tally(TELL_EVERY_SECONDS), Tally(TELL_EVERY_SECONDS)


class Wait(StrEnum):
    """What a connection waits for."""

    HANDSHAKE = "handshake"
    HEADERS = "headers"
    BODY = "body"
    READER = "reader"
    NEXT_REQUEST = "next_request"


class Waiting:
    """A connection that can be closed for a new one. `waits_for` None: not now. `since`: by the clock of the loop."""

    waits_for: Wait | None
    since: float
    transport: asyncio.Transport

    def cut_off(self) -> None:
        """Ends the connection."""
        raise NotImplementedError


def guarded(limits: HttpLimits) -> type[H11Protocol]:
    """The protocol class for uvicorn that keeps these limits."""
    return type("GuardedConnection", (_Guarded,), {"limits": limits})


def note_cut_off(connection: Waiting, waited_for: Wait | None, now: float) -> None:
    """Counts it, and tells it once a minute, since anybody can make it happen. `now`: by a monotonic clock."""
    _cut_off.labels(waited_for).inc()
    count = _slow_told.add(now)
    if count:
        log.info("slow clients cut off", count=count, last=_client(connection.transport), waited_for=waited_for)


def _client(transport: asyncio.Transport) -> str:
    return str(transport.get_extra_info("peername"))


def allow_connections(limits: HttpLimits) -> HttpLimits:
    """The limits with as many connections as this process may have open files. Raises its soft limit where it can."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.most_connections + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return limits
    return limits._replace(most_connections=max(1, min(limits.most_connections, soft - _OTHER_FILES)))


def has_room(connections: Collection[object], new: Waiting, limits: HttpLimits) -> bool:
    """Whether there is room for a new one of these connections: the one that has waited for its client for the longest
    time is closed for it, if any waits."""
    if len(connections) <= limits.most_connections:
        return True
    others = [other for other in connections if other is not new and isinstance(other, Waiting)]
    waiting = [other for other in others if other.waits_for is not None and not other.transport.is_closing()]
    if not waiting:
        return False
    min(waiting, key=lambda other: other.since).cut_off()
    return True


class _Guarded(PeerProtocol, Waiting):
    """One connection."""

    limits = HttpLimits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = OneLength(h11.SERVER, self.conn._max_incomplete_event_size)
        self.waits_for: Wait | None = None
        self.since = 0.0
        self._limit: asyncio.TimerHandle | None = None
        self._reader_is_slow = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not has_room(self.connections, self, self.limits):
            self._answer(503, "too many connections")
        self._note()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_for(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._note()

    def send_400_response(self, msg: str) -> None:
        _invalid.inc()
        count = _invalid_told.add(self.loop.time())
        if count:
            log.info("invalid requests refused", count=count, last=_client(self.transport))
        super().send_400_response(msg)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._note()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._note()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reader_is_slow = True
        self._note()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._reader_is_slow = False
        self._note()

    def _note(self) -> None:
        """Notes what the connection waits for now. A wait that goes on keeps its limit, whatever arrives meanwhile."""
        waits_for = self._waiting()
        if waits_for != self.waits_for:
            self._wait_for(waits_for)

    def _waiting(self) -> Wait | None:
        if self._reader_is_slow or self.transport.is_closing():
            return Wait.READER if self.transport.get_write_buffer_size() else None
        if self.conn.their_state is h11.SEND_BODY:
            return Wait.BODY
        if self.conn.their_state is not h11.IDLE:
            return None
        began = self.cycle is None or bool(self.conn.trailing_data[0])
        return Wait.HEADERS if began else Wait.NEXT_REQUEST

    def _wait_for(self, what: Wait | None) -> None:
        if self._limit is not None:
            self._limit.cancel()
        self.waits_for, self.since = what, self.loop.time()
        seconds = self._seconds(what)
        self._limit = None if seconds is None else self.loop.call_later(seconds, self.cut_off)

    def _seconds(self, what: Wait | None) -> float | None:
        if what in (None, Wait.NEXT_REQUEST):
            return None
        return self.limits.header_seconds if what is Wait.HEADERS else self.limits.body_seconds

    def cut_off(self) -> None:
        """Ends the connection; with 408 when the client still expects an answer to a request."""
        waited_for = self.waits_for
        note_cut_off(self, waited_for, self.loop.time())
        if waited_for in (Wait.HEADERS, Wait.BODY) and self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._answer(408, "the request took too long to arrive")
        elif waited_for is not Wait.READER:
            self.transport.close()
        if waited_for is Wait.READER:
            self.transport.abort()
        else:
            self._note()

    def _answer(self, status: int, detail: str) -> None:
        """An answer without the application, then the end of the connection."""
        content = f'{{"type":"about:blank","title":"{status}","status":{status},"detail":"{detail}"}}'.encode()
        headers = [
            (b"content-type", b"application/problem+json"),
            (b"content-length", str(len(content)).encode()),
            (b"connection", b"close"),
        ]
        for event in (h11.Response(status_code=status, headers=headers), h11.Data(data=content), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
