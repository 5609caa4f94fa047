"""A Job Service for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from penstock.wire.job_client import JobClient
from tests.support.cli.shell import Shell
from tests.support.job_service.service import RunningJobService, job_service
from tests.support.state_syncer.cell import Cell


@pytest.fixture
def service(database_url: str) -> Iterator[RunningJobService]:
    with job_service(database_url) as running:
        yield running


@pytest.fixture
def client(service: RunningJobService) -> Iterator[JobClient]:
    with service.client() as admin:
        yield admin


@pytest.fixture
def cell(service: RunningJobService) -> Cell:
    """The State Syncer's side of the job store."""
    return Cell(service.engine, ("a", "b"))


@pytest.fixture
def shell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], service: RunningJobService
) -> Iterator[Shell]:
    """The CLI with the admin token."""
    monkeypatch.setenv("PENSTOCK_URL", service.url)
    monkeypatch.setenv("PENSTOCK_TOKEN", service.admin)
    with capture_logs():
        yield Shell(monkeypatch, capsys)
