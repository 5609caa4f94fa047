"""Connections to a job store on another machine, which may vanish without closing anything."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest
from sqlalchemy.engine import make_url

from penstock.store.engine import connect, listen, transaction
from tests.support.chaos.proxy import Proxy

MOST_MILLIS = 20_000


@pytest.fixture
def remote_url(database_url: str) -> Iterator[str]:
    """The database by way of TCP."""
    url, proxy = make_url(database_url), Proxy()
    proxy.start()
    link = proxy.link(("127.0.0.1", 0), f"{url.query['host']}/.s.PGSQL.5432")
    host, port = link.address
    remote = url.set(host=str(host), port=int(port), query={})
    yield remote.render_as_string(hide_password=False)
    proxy.stop()


def _gives_up_after_millis(file_descriptor: int) -> tuple[int, int]:
    """How long a silent peer is waited for: with something sent that it should confirm, and with nothing."""
    with socket.socket(fileno=os.dup(file_descriptor)) as copy:
        unconfirmed = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        idle, interval, count = (
            copy.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert copy.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    return unconfirmed, 1000 * (idle + interval * count)


def test_a_store_that_vanishes_is_given_up_soon(remote_url: str) -> None:
    engine = connect(remote_url)
    with transaction(engine) as connection:
        raw = connection.connection.driver_connection
        assert raw is not None
        assert 0 < max(_gives_up_after_millis(raw.fileno())) <= MOST_MILLIS
    engine.dispose()


def test_so_is_one_that_is_only_listened_to(remote_url: str) -> None:
    with listen(remote_url, ("penstock_expected",)) as connection:
        assert 0 < max(_gives_up_after_millis(connection.fileno())) <= MOST_MILLIS
