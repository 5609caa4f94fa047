"""The proxy between the processes of a chaos: what it does to bytes and to connections."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.control.process import wait_until
from tests.support.chaos.proxy import BOTH, Link, Proxy, Way

THERE, BACK = frozenset({Way.THERE}), frozenset({Way.BACK})
PATIENCE_S = 10.0


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    proxy = Proxy()
    proxy.start()
    yield proxy
    proxy.stop()


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        yield server


@pytest.fixture
def link(proxy: Proxy, server: socket.socket) -> Link:
    return proxy.link(("127.0.0.1", 0), server.getsockname())


def dial(link: Link) -> socket.socket:
    assert not isinstance(link.address, str)
    return socket.create_connection(link.address, timeout=PATIENCE_S)


def has_news(end: socket.socket) -> bool:
    end.setblocking(False)
    try:
        return bool(end.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        end.settimeout(PATIENCE_S)


def test_bytes_and_ends_pass_both_ways(link: Link, server: socket.socket):
    with dial(link) as client, server.accept()[0] as end:
        client.sendall(b"question")
        assert end.recv(100) == b"question"
        client.shutdown(socket.SHUT_WR)
        assert end.recv(100) == b""
        end.sendall(b"answer")
        end.close()
        assert (client.recv(100), client.recv(100)) == (b"answer", b"")


def test_unix_sockets_are_passed_on_too(proxy: Proxy, tmp_path: Path):
    target = str(tmp_path / "target")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(target)
        server.listen()
        link = proxy.link(str(tmp_path / "link"), target)
        client.connect(link.address)
        with server.accept()[0] as end:
            client.sendall(b"hello")
            assert end.recv(100) == b"hello"


def test_a_cut_of_one_way_lets_the_other_pass_and_loses_nothing(proxy: Proxy, link: Link, server: socket.socket):
    with dial(link) as client, server.accept()[0] as end:
        client.sendall(b"1")
        assert end.recv(1) == b"1"
        proxy.call(lambda: link.hold(THERE))
        client.sendall(b"2")
        end.sendall(b"back")
        assert client.recv(100) == b"back"
        assert not has_news(end)
        proxy.call(lambda: link.release(THERE))
        assert end.recv(100) == b"2"


def test_two_cuts_end_with_the_later_one(proxy: Proxy, link: Link, server: socket.socket):
    with dial(link) as client, server.accept()[0] as end:
        proxy.call(lambda: link.hold(BOTH))
        proxy.call(lambda: link.hold(BACK))
        proxy.call(lambda: link.release(BOTH))
        client.sendall(b"there")
        assert end.recv(100) == b"there"
        end.sendall(b"back")
        assert not has_news(client)
        proxy.call(lambda: link.release(BACK))
        assert client.recv(100) == b"back"


def test_who_gives_up_during_a_cut_never_arrives(proxy: Proxy, link: Link, server: socket.socket):
    proxy.call(lambda: link.hold(BACK))
    dial(link).close()
    with dial(link) as client:
        client.sendall(b"patient")
        proxy.call(lambda: link.release(BACK))
        with server.accept()[0] as end:
            assert end.recv(100) == b"patient"


def test_a_reset_is_felt_at_both_ends(proxy: Proxy, link: Link, server: socket.socket):
    with dial(link) as client, server.accept()[0] as end:
        client.sendall(b"1")
        assert end.recv(1) == b"1"
        proxy.call(link.reset)
        for each in (client, end):
            with pytest.raises(ConnectionResetError):
                each.recv(1)


def test_nobody_there_is_a_broken_connection(proxy: Proxy, link: Link, server: socket.socket):
    server.close()

    def is_broken() -> bool:
        try:
            with dial(link) as client:
                return client.recv(1) == b""
        except ConnectionResetError:
            return True

    assert wait_until(is_broken, PATIENCE_S, "the connection to break")


def test_a_delay_keeps_the_order(proxy: Proxy, link: Link, server: socket.socket):
    proxy.call(lambda: link.slow_down(0.01))
    with dial(link) as client, server.accept()[0] as end:
        for number in range(5):
            client.sendall(str(number).encode())
        received = b""
        while len(received) < 5:
            received += end.recv(100)
        assert received == b"01234"
