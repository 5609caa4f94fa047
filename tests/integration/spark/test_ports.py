"""What an account of the machine finds at the ports of a host. It runs on the shared host of `conftest`."""

from __future__ import annotations

import select
import socket
import struct
from contextlib import ExitStack

import psutil

from tests.support.spark.hosts import Supervisor, jvm_pid

RPC_REQUEST, NUMBER, BODY = 3, 7, b"hello"
WAIT_SECONDS = 30.0


def test_driver_and_blocks_are_this_machines_and_ask_for_a_secret(shared_host: Supervisor) -> None:
    """A stranger sends a call of Spark's to each port. Those of the driver and of its blocks want its secret first; the
    third, py4j's, waits for the rest of a line."""
    ports = psutil.Process(jvm_pid(shared_host)).net_connections("inet")
    listening = [each.laddr for each in ports if each.status == psutil.CONN_LISTEN]
    assert {each.ip.removeprefix("::ffff:") for each in listening} == {"127.0.0.1"}
    frame = struct.pack(">qBqi", 8 + 1 + 8 + 4 + len(BODY), RPC_REQUEST, NUMBER, len(BODY)) + BODY
    answers: list[bytes] = []
    with ExitStack() as opened:
        waiting = [opened.enter_context(_connect(each.port)) for each in listening]
        for each in waiting:
            each.sendall(frame)
        while len(answers) < 2:
            ready = select.select(waiting, [], [], WAIT_SECONDS)[0]
            assert ready, f"answered: {answers}"
            answers += [each.recv(1000) for each in ready]
            waiting = [each for each in waiting if each not in ready]
    assert [b"Expected SaslMessage" in answer for answer in answers] == [True, True]


def _connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), WAIT_SECONDS)
