"""A job store that accepts everything and answers nothing: what is known without it is still served."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine
from sqlalchemy.engine import make_url
from sqlalchemy.pool import QueuePool

from penstock.control.process import wait_until
from penstock.model.reports import TaskReportBatch
from penstock.wire.cluster import Snapshot, as_json
from tests.support import calls, identity
from tests.support.chaos.proxy import BOTH, Link, Proxy
from tests.support.store.running import commit_job
from tests.support.task_service.service import task_service

# More than the worker threads of a service.
REPORTERS = 60
ANSWER_S = 5.0
_SOCKET = ".s.PGSQL.5432"


class Detour:
    """A database by way of a link that can be cut."""

    def __init__(self, proxy: Proxy, link: Link, url: str) -> None:
        self.url = url
        self._proxy, self._link = proxy, link

    def hush(self) -> None:
        self._proxy.call(lambda: self._link.hold(BOTH))

    def resound(self) -> None:
        self._proxy.call(lambda: self._link.release(BOTH))


@pytest.fixture
def detour(database_url: str, servers_dir: Path) -> Iterator[Detour]:
    url, proxy, folder = make_url(database_url), Proxy(), servers_dir / "detour"
    folder.mkdir()
    proxy.start()
    link = proxy.link(str(folder / _SOCKET), f"{url.query['host']}/{_SOCKET}")
    yield Detour(proxy, link, url.set(query={"host": str(folder)}).render_as_string(hide_password=False))
    proxy.stop()


def test_specs_are_served_while_many_reports_wait_for_a_silent_store(detour: Detour, engine: Engine) -> None:
    """1. The store falls silent. 2. More containers report than the service has threads. 3. Specs are answered."""
    commit_job(engine, "a", task_count=2)
    begun = threading.Barrier(REPORTERS + 1, timeout=30)
    with task_service(detour.url) as service, ThreadPoolExecutor(REPORTERS) as reporters:
        service.has_read()
        detour.hush()
        for number in range(REPORTERS):
            reporters.submit(_report, service.url, f"c{number}", begun)
        begun.wait()
        try:
            wait_until(lambda: _waiting(service.process.engine), 10, "reports to wait for the store")
            specs = calls.get(f"{service.url}/v1/specs", timeout=ANSWER_S, auth=identity.auth_of_container("c1"))
            assert Snapshot.model_validate_json(specs.content).full
            assert calls.get(f"{service.url}/readyz", timeout=ANSWER_S).status_code == 200
        finally:
            detour.resound()


def _report(url: str, container: str, begun: threading.Barrier) -> None:
    batch = TaskReportBatch(container=container, incarnation="one", commit_number=1, version=1, tasks=())
    begun.wait()
    with suppress(httpx.HTTPError):  # what becomes of it is of no interest here
        calls.post(f"{url}/v1/reports", json=as_json(batch), timeout=60.0, auth=identity.auth_of_container(container))


def _waiting(engine: Engine) -> bool:
    """Whether every connection to the store is in use, so that further reports wait, too."""
    pool = engine.pool
    assert isinstance(pool, QueuePool)
    return pool.checkedout() >= pool.size()
