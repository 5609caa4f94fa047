"""A TCP proxy (Unix sockets, too) whose links can be cut, one way or both, delayed and reset.

A cut behaves like a lost route: nothing is refused and nothing is lost. Bytes that were sent, and the ends of
connections, arrive when the route is back; connections that were begun meanwhile hang.
"""

from __future__ import annotations

import asyncio
import select
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from enum import Enum
from typing import TypeVar

T = TypeVar("T")
Address = tuple[str, int] | str
_CHUNK_BYTES = 65_536
_BACKLOG = 128
_CLOSE_BY_RESET = struct.pack("ii", 1, 0)


class Way(Enum):
    """A direction: from the client to the server, or back."""

    THERE = "there"
    BACK = "back"


BOTH = frozenset(Way)


class Link:
    """All connections that come in at `address`, passed on to `target`. Its methods belong to the proxy's thread."""

    def __init__(self, listener: socket.socket, target: Address) -> None:
        self.address: Address = listener.getsockname()
        self._listener = listener
        self._target = target
        self._held: Counter[Way] = Counter()
        self._open = {way: asyncio.Event() for way in Way}
        for event in self._open.values():
            event.set()
        self._delay_s = 0.0
        self._connections: set[asyncio.Task[None]] = set()

    def hold(self, ways: frozenset[Way]) -> None:
        """Nothing passes these ways until each hold is released."""
        for way in ways:
            self._held[way] += 1
            self._open[way].clear()

    def release(self, ways: frozenset[Way]) -> None:
        """Takes one hold back."""
        for way in ways:
            self._held[way] -= 1
            if not self._held[way]:
                self._open[way].set()

    def slow_down(self, seconds: float) -> None:
        """Adds so much to the time that each piece takes, in both ways."""
        self._delay_s += seconds

    def reset(self) -> None:
        """Breaks all connections at once; both ends are told."""
        for connection in self._connections:
            connection.cancel()

    async def serve(self) -> None:
        """Accepts until cancelled; then all connections end."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                client, _ = await loop.sock_accept(self._listener)
                connection = loop.create_task(self._carry(client))
                self._connections.add(connection)
                connection.add_done_callback(self._connections.discard)
        finally:
            self._listener.close()
            self.reset()

    async def _carry(self, client: socket.socket) -> None:
        with client, _socket_to(self._target) as server:
            try:
                await self._opened()
                if not _has_left(client):
                    await self._exchange(client, server)
            except ExceptionGroup:  # an end was lost: the other learns it when news can pass
                await self._opened()
                _reset_at_close(client, server)
            except OSError:
                _reset_at_close(client, server)
            except asyncio.CancelledError:
                _reset_at_close(client, server)
                raise

    async def _exchange(self, client: socket.socket, server: socket.socket) -> None:
        await asyncio.get_running_loop().sock_connect(server, self._target)
        async with asyncio.TaskGroup() as ways:
            ways.create_task(self._pump(client, server, Way.THERE))
            ways.create_task(self._pump(server, client, Way.BACK))

    async def _pump(self, source: socket.socket, sink: socket.socket, way: Way) -> None:
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(source, _CHUNK_BYTES):
            await self._delayed()
            await self._open[way].wait()
            await loop.sock_sendall(sink, data)
        await self._open[way].wait()
        sink.shutdown(socket.SHUT_WR)

    async def _delayed(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.create_future()
        loop.call_later(self._delay_s, due.cancel)
        await asyncio.wait([due])

    async def _opened(self) -> None:
        while any(self._held.values()):
            for event in self._open.values():
                await event.wait()


class Proxy:
    """A thread that carries the links. Use as a context manager; safe from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chaos-proxy", daemon=True)
        self._serving: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begins to carry."""
        self._thread.start()

    def link(self, address: Address, target: Address) -> Link:
        """A new link; port 0 is a free one. Raises OSError when the address is taken."""
        listener = _socket_to(address)
        listener.bind(address)
        listener.listen(_BACKLOG)

        def begin() -> Link:
            link = Link(listener, target)
            self._serving.append(self._loop.create_task(link.serve()))
            return link

        return self.call(begin)

    def call(self, act: Callable[[], T]) -> T:
        """Runs `act` on the proxy's thread and returns what it does."""
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(act())
            except Exception as error:  # noqa: BLE001 -- it is the caller's
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result()

    def each(self, acts: Sequence[Callable[[], None]]) -> None:
        """All of them at the same moment."""

        def act() -> None:
            for one in acts:
                one()

        self.call(act)

    def stop(self) -> None:
        """Breaks all connections and ends. Safe to repeat."""
        if self._loop.is_closed():
            return
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        for task in self._serving:
            task.cancel()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)


def _socket_to(address: Address) -> socket.socket:
    """An open socket for the address that does not block."""
    made = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
    made.setblocking(False)
    if not isinstance(address, str):
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return made


def _has_left(client: socket.socket) -> bool:
    """Whether a client has given its connection up, so that nothing of it is to arrive."""
    poll = select.poll()
    poll.register(client, select.POLLRDHUP)
    return bool(poll.poll(0))


def _reset_at_close(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _CLOSE_BY_RESET)
