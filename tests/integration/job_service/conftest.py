"""One running Job Service for all tests of the folder; each finds its database as if new."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from tests.support.cli.shell import Shell
from tests.support.job_service.service import RunningJobService, standing_job_service
from tests.support.state_syncer.cell import Cell


@pytest.fixture(scope="package")
def standing(postgres_url: str, template_database: str) -> Iterator[RunningJobService]:
    with standing_job_service(postgres_url, template_database) as running:
        yield running


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
