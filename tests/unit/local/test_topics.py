"""Kafka that is not there is told at once."""

from __future__ import annotations

import socket

import pytest

from penstock.control.errors import Unavailable
from penstock.local.ports import free_port
from penstock.local.topics import require_listening


def test_one_address_that_listens_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        require_listening(f"127.0.0.1:{free_port()}, 127.0.0.1:{server.getsockname()[1]}")
        connection, _ = server.accept()
        with connection:
            assert connection.recv(1) == b"", "it says nothing, and is closed"


@pytest.mark.parametrize("bootstrap", ["127.0.0.1", "kafka:port"])
def test_an_address_without_a_port_says_how_to_write_it(bootstrap: str) -> None:
    with pytest.raises(Unavailable, match=f"{bootstrap} is no address: in PENSTOCK_KAFKA_BOOTSTRAP write host:port"):
        require_listening(bootstrap)


@pytest.mark.parametrize("bootstrap", ["127.0.0.1:{free}", "127.0.0.1", "kafka:port"])
def test_nothing_that_listens_names_what_to_set(bootstrap: str) -> None:
    bootstrap = bootstrap.format(free=free_port())
    with pytest.raises(Unavailable, match=r"PENSTOCK_DATA_DIR .* PENSTOCK_KAFKA_BOOTSTRAP"):
        require_listening(bootstrap)
