"""The State Syncer and the Auto Scaler as processes: HTTP side, and `kill -9` of a leader."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, text

from penstock.control.process import kill_group, start_child, stop_group, wait_until
from penstock.local.ports import free_port
from penstock.store.engine import connect, transaction
from tests.support import calls, identity
from tests.support.store.jobs import make_layer, write_layer

START_TIMEOUT_SECONDS = 60.0
PUBLIC_URL = "http://leader.example:7071"


class ServiceProcess:
    """A service of this checkout on a free port."""

    def __init__(self, module: str, database_url: str, log_path: Path, **environment: str) -> None:
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        env = {**os.environ, "PENSTOCK_DATABASE_URL": database_url, "PENSTOCK_PORT": str(port), **environment}
        command = [sys.executable, "-m", module]
        self.process: subprocess.Popen[bytes] = start_child(command, log_path=log_path, env=env)

    def ready(self) -> dict[str, Any] | None:
        """The body of `/readyz`; None while it is not ready."""
        try:
            response = calls.get(f"{self.url}/readyz", auth=identity.auth(identity.OBSERVER))
        except httpx.TransportError:
            return None
        return dict(response.json()) if response.status_code == 200 else None

    def is_ready_as(self, role: str) -> bool:
        """Whether it says that it is `leader` or `standby`."""
        body = self.ready()
        return body is not None and body["role"] == role


@contextmanager
def service(module: str, database_url: str, log_path: Path, **environment: str) -> Iterator[ServiceProcess]:
    child = ServiceProcess(module, database_url, log_path, **environment)
    try:
        yield child
    finally:
        stop_group(child.process, 10)


def committed_revision(engine: Engine, job: str) -> int | None:
    with transaction(engine) as connection:
        found = connection.execute(text("SELECT revision FROM running WHERE job = :job"), {"job": job})
        return found.scalar_one_or_none()


def address_of_leader(engine: Engine, name: str) -> str | None:
    """Where others look for the leader of this service."""
    with transaction(engine) as connection:
        found = connection.execute(text("SELECT url FROM leases WHERE name = :name"), {"name": name})
        return found.scalar_one_or_none()


@pytest.mark.long
def test_a_standby_takes_over_from_a_leader_that_was_killed(database_url: str, tmp_path: Path) -> None:
    """1. One leads, at its public address, one stands by. 2. It commits a write. 3. `kill -9`: the standby commits."""
    engine = connect(database_url)
    times = {"PENSTOCK_STATE_SYNCER_LEASE_SECONDS": "2", "PENSTOCK_STATE_SYNCER_RENEW_SECONDS": "0.5"}
    times["PENSTOCK_STATE_SYNCER_PERIOD_SECONDS"] = "3600"
    with ExitStack() as stack:
        syncer = partial(service, "services.state_syncer", database_url, **times)
        first = stack.enter_context(syncer(log_path=tmp_path / "first.log", PENSTOCK_PUBLIC_URL=PUBLIC_URL))
        wait_until(lambda: first.is_ready_as("leader"), START_TIMEOUT_SECONDS, "the first to lead")
        epoch = first.ready()["epoch"]
        assert address_of_leader(engine, "state_syncer") == PUBLIC_URL
        second = stack.enter_context(syncer(log_path=tmp_path / "second.log"))
        wait_until(lambda: second.is_ready_as("standby"), START_TIMEOUT_SECONDS, "the second to stand by")
        revision = write_layer(engine, "j", make_layer())
        wait_until(lambda: committed_revision(engine, "j") == revision, 10, "the first commit")
        assert 'penstock_syncer_commits_total{kind="first"} 1.0' in calls.get(f"{first.url}/metrics").text
        kill_group(first.process)
        revision = write_layer(engine, "j", make_layer(priority=1))
        wait_until(lambda: committed_revision(engine, "j") == revision, 20, "the second to commit")
        body = second.ready()
    assert body == {"service": "state_syncer", "role": "leader", "epoch": body["epoch"]}
    assert body["epoch"] > epoch
    assert f"revision={revision}" in (tmp_path / "second.log").read_text()
    engine.dispose()


def test_the_auto_scaler_leads_and_ends_cleanly(database_url: str, tmp_path: Path) -> None:
    """1. It leads, found at its public address. 2. SIGTERM: it exits with 0 and gives up its lease, for a successor."""
    engine = connect(database_url)
    with service("services.auto_scaler", database_url, tmp_path / "log", PENSTOCK_PUBLIC_URL=PUBLIC_URL) as scaler:
        wait_until(lambda: scaler.is_ready_as("leader"), START_TIMEOUT_SECONDS, "it to lead")
        assert address_of_leader(engine, "auto_scaler") == PUBLIC_URL
        assert "penstock_scaler_round_seconds_count" in calls.get(f"{scaler.url}/metrics").text
        assert calls.get(f"{scaler.url}/healthz").json() == {"service": "auto_scaler", "status": "alive"}
        exit_code = stop_group(scaler.process, 20)
    with transaction(engine) as connection:
        expired = connection.execute(text("SELECT expires_at < now() FROM leases WHERE name = 'auto_scaler'"))
        assert expired.scalars().all() == [True]
    assert exit_code == 0
    engine.dispose()
