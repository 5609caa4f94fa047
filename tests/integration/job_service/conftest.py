"""One running Job Service for all tests of the folder; each finds its database as if new."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from penstock.store import tokens
from penstock.store.engine import transaction
from penstock.wire.job_client import JobClient
from tests.support.database import fresh_database
from tests.support.job_service import RunningJobService, job_service
from tests.support.rescales import RescaleCell
from tests.support.shell import Shell
from tests.support.store.emptied import empty, remember
from tests.support.syncer_cell import elect


@pytest.fixture(scope="package")
def standing(postgres_url: str, template_database: str) -> Iterator[RunningJobService]:
    """The service that runs as long as the folder's tests. Only `service` uses it."""
    with fresh_database(postgres_url, template_database) as url:
        remember(url)
        with job_service(url) as running:
            yield running


@pytest.fixture
def service(standing: RunningJobService) -> RunningJobService:
    """It remembers nothing from one request to the next, so on an emptied database it is as good as a new one."""
    empty(standing.engine)
    with transaction(standing.engine) as connection:
        return replace(standing, admin=str(tokens.create_first_admin(connection)))


@pytest.fixture
def client(service: RunningJobService) -> Iterator[JobClient]:
    with service.client() as admin:
        yield admin


@pytest.fixture
def cell(service: RunningJobService) -> RescaleCell:
    """The State Syncer's side of the job store."""
    return RescaleCell(service.engine, elect(service.engine, "first"))


@pytest.fixture
def shell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], service: RunningJobService
) -> Iterator[Shell]:
    """The CLI with the admin token."""
    monkeypatch.setenv("PENSTOCK_URL", service.url)
    monkeypatch.setenv("PENSTOCK_TOKEN", service.admin)
    with capture_logs():
        yield Shell(monkeypatch, capsys)
