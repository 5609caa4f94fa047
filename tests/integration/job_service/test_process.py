"""The Job Service as a process: starts on an empty database, drops what expires, ends when asked to."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError
from sqlalchemy import Engine, text

from penstock.control.clock import SystemClock
from penstock.control.process import start_child, stop_group, wait_until
from penstock.local.ports import free_port
from penstock.model.alerts import AlertKind
from penstock.store import leases
from penstock.store.alerts import raise_alert
from penstock.store.engine import connect, transaction
from penstock.store.migrate import upgrade
from penstock.store.tokens import create_first_admin
from penstock.wire.job_client import JobClient
from penstock.wire.traces import trace_id
from services.job_service.__main__ import main
from services.job_service.expiry import LOOP
from services.job_service.notify.loop import LOOP as NOTIFICATIONS
from services.job_service.notify.loop import Notifications
from services.job_service.notify.messages import Links
from services.job_service.notify.sender import Sender
from services.job_service.settings import JobServiceSettings
from tests.support import calls
from tests.support.job_service.service import CONFIG
from tests.support.job_service.webhook import webhook

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-m", "services.job_service"]
UP_SECONDS = 60.0


@pytest.mark.long
def test_two_processes_on_an_empty_database(empty_database_url: str, tmp_path: Path) -> None:
    """1. Both bring the schema up at once and serve. 2. What one writes the other shows. 3. One of them drops what
    expired. 4. When the leader is killed the other goes on dropping. 5. A client that sends no headers is cut off. 6.
    SIGTERM ends it at once. 7. A collector has the first span of each revision that the other one wrote."""
    with (
        webhook() as collector,
        _running(empty_database_url, tmp_path, PENSTOCK_TRACES_URL=collector.url) as (first, one),
        _running(empty_database_url, tmp_path, PENSTOCK_TRACES_URL=collector.url) as (second, two),
    ):
        for url in (one, two):
            wait_until(lambda url=url: _answers(url), UP_SECONDS, "the Job Service to answer")
        assert {calls.get(one + path).status_code for path in ("/healthz", "/readyz", "/metrics")} == {200}
        token = _first_admin(empty_database_url)
        with JobClient(one, token) as client, JobClient(two, token) as other:
            client.put_job("etl", CONFIG)
            client.put_layer("etl", "oncall", {"priority": 1}, if_match=0, expires_in_seconds=1)
            wait_until(lambda: other.get_layer("etl", "oncall").config is None, UP_SECONDS, "the override to end")
            leads = _leader(empty_database_url) == one
            (first if leads else second).send_signal(signal.SIGKILL)
            left = other if leads else client
            left.put_layer("etl", "oncall", {"priority": 1}, if_match=2, expires_in_seconds=1)
            wait_until(lambda: left.get_layer("etl", "oncall").config is None, UP_SECONDS, "the override to end")
            entries = left.history("etl").entries[:2]
            assert [entry.action for entry in entries] == ["expire", "put"]
        with socket.create_connection(("127.0.0.1", int((two if leads else one).rpartition(":")[2])), 30) as slow:
            slow.sendall(b"GET /healthz HTTP/1.1\r\nHost:")
            assert slow.recv(1000).startswith(b"HTTP/1.1 408 ")
        assert stop_group(second if leads else first, 20.0) == 0
        assert {request.path for request in collector.received} == {"/v1/traces"}
        spans = [span for request in collector.received for span in _spans(request.json)]
        begun = {span["traceId"] for span in spans if "parentSpanId" not in span}
        assert {trace_id(entry.revision) for entry in entries} <= begun


def _spans(sent: Any) -> list[Any]:
    return [span for of in sent["resourceSpans"] for scope in of["scopeSpans"] for span in scope["spans"]]


def test_a_process_that_is_killed_while_it_tells_a_webhook(database_url: str, tmp_path: Path) -> None:
    """1. The webhook kills the sender before it answers. 2. Another process leads. 3. It sends the same message under
    the same name."""
    engine = connect(database_url)
    with webhook() as hook:
        target = {"name": "pager", "shape": "json", "url": hook.url}
        told = {
            "PENSTOCK_NOTIFY_TARGETS": json.dumps([target]),
            "PENSTOCK_NOTIFY_GATHER_SECONDS": "0",
            "PENSTOCK_NOTIFY_PERIOD_SECONDS": "0.2",
            "PENSTOCK_NOTIFY_LEASE_SECONDS": "1",
        }
        with transaction(engine) as connection:
            raise_alert(connection, AlertKind.TASK_CRASHING, "etl", "task 0 is ill")
        with _running(database_url, tmp_path, **told) as (process, _):
            hook.before_answer = process.kill
            wait_until(lambda: process.poll() is not None, UP_SECONDS, "the sender to be killed")
        hook.before_answer = lambda: None
        wait_until(lambda: _next_round(engine, target), UP_SECONDS, "another leader's round")
        first, again = hook.received
        assert (first.delivery, first.body) == (again.delivery, again.body)
    engine.dispose()


def _next_round(engine: Engine, target: dict[str, str]) -> bool:
    """A round of another process, once it leads."""
    with transaction(engine) as connection:
        epoch = leases.take(connection, NOTIFICATIONS, "next", url="", seconds=60.0)
    if epoch is not None:
        targets = JobServiceSettings(notify_targets=(target,)).notify_targets
        Notifications(engine, SystemClock(), targets, Sender().send, gather_seconds=0.0, links=Links()).round(epoch)
    return epoch is not None


def test_it_refuses_to_serve_others_without_authentication(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_HOST", "0.0.0.0")
    monkeypatch.setenv("PENSTOCK_AUTHENTICATION", "false")
    with pytest.raises(ValidationError, match="authentication is off"):
        main()


@contextmanager
def _running(database_url: str, folder: Path, **settings: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    port = free_port()
    environment = {
        **os.environ,
        "PENSTOCK_DATABASE_URL": database_url,
        "PENSTOCK_PORT": str(port),
        "PENSTOCK_EXPIRY_PERIOD_SECONDS": "0.2",
        "PENSTOCK_EXPIRY_LEASE_SECONDS": "1",
        "PENSTOCK_HTTP_HEADER_SECONDS": "1",
        **settings,
    }
    process = start_child(COMMAND, env=environment, cwd=ROOT, log_path=folder / f"{port}.log")
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        stop_group(process, 20.0)


def _answers(url: str) -> bool:
    try:
        return calls.get(f"{url}/readyz").is_success
    except httpx.TransportError:
        return False


def _first_admin(database_url: str) -> str:
    upgrade(database_url)
    engine = connect(database_url)
    with transaction(engine) as connection:
        token = create_first_admin(connection)
    engine.dispose()
    return str(token)


def _leader(database_url: str) -> str:
    engine = connect(database_url)
    with transaction(engine) as connection:
        url = connection.execute(text("SELECT url FROM leases WHERE name = :name"), {"name": LOOP}).scalar_one()
    engine.dispose()
    return str(url)
