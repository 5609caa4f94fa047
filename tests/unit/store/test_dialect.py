"""When a pooled connection's server is looked at."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from penstock.store import dialect
from penstock.store.dialect import TRUSTED_SECONDS, PrimaryDialect


class _Cursor:
    def __init__(self, row: tuple[str]) -> None:
        self._row = row

    def fetchone(self) -> tuple[str]:
        return self._row


class _Connection:
    autocommit = False
    closed = False

    def __init__(self) -> None:
        self.looks = 0
        self.read_only = "off"
        self._socket, self.server = socket.socketpair()

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()
        self.server.close()

    def execute(self, statement: str) -> _Cursor:
        assert "transaction_read_only" in statement
        self.looks += 1
        return _Cursor((self.read_only,))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the dialect takes for the time: the last of these."""
    times = [0.0]
    monkeypatch.setattr(dialect, "monotonic", lambda: times[-1])
    return times


@pytest.fixture
def connections() -> Iterator[list[_Connection]]:
    made = [_Connection(), _Connection()]
    yield made
    for each in made:
        each.close()


def test_a_connection_in_constant_use_is_looked_at_again_and_again_but_not_each_time(
    clock: list[float], connections: list[_Connection]
) -> None:
    """Use alone keeps no connection: its server may have become a replica, which still answers reads."""
    primary, connection = PrimaryDialect(), connections[0]
    uses = 40
    for turn in range(uses):
        clock.append(turn * TRUSTED_SECONDS / 10)
        assert primary.do_ping(connection)
    assert connection.looks == uses / 10
    connection.read_only = "on"
    clock.append(clock[-1] + TRUSTED_SECONDS)
    assert not primary.do_ping(connection)


def test_one_that_its_server_has_closed_is_looked_at_at_once(
    clock: list[float], connections: list[_Connection]
) -> None:
    primary, connection = PrimaryDialect(), connections[0]
    assert primary.do_ping(connection)
    connection.server.close()
    assert primary.do_ping(connection)
    assert connection.looks == 2


def test_each_connection_is_looked_at_by_itself(clock: list[float], connections: list[_Connection]) -> None:
    primary = PrimaryDialect()
    assert all(primary.do_ping(each) for each in connections for _ in range(2))
    assert [each.looks for each in connections] == [1, 1]
