"""The Spark session and the Job Service that integration tests share."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.wire.job_client import JobClient
from tests.support.cli.shell import Shell, lone
from tests.support.job_service.service import RunningJobService, as_new, standing_job_service
from tests.support.spark.session import local_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session in this process, for tests of what runs inside a session; hosts make their own."""
    with (
        tempfile.TemporaryDirectory(prefix="penstock-spark-", ignore_cleanup_errors=True) as folder,
        local_session(Path(folder)) as session,
    ):
        yield session


@pytest.fixture(scope="module")
def standing(postgres_url: str, template_database: str) -> Iterator[RunningJobService]:
    """One running Job Service for a file, or for a folder that overrides this with a wider scope."""
    with standing_job_service(postgres_url, template_database) as running:
        yield running


@pytest.fixture
def service(standing: RunningJobService) -> RunningJobService:
    """The Job Service, whose database is as if new."""
    return as_new(standing)


@pytest.fixture
def client(service: RunningJobService) -> Iterator[JobClient]:
    """With the admin's token."""
    with service.client() as admin:
        yield admin


@pytest.fixture
def lone_shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Iterator[Shell]:
    """A shell whose settings name no service that answers."""
    with lone(monkeypatch, capsys, tmp_path) as shell:
        yield shell


@pytest.fixture
def shell(lone_shell: Shell, monkeypatch: pytest.MonkeyPatch, service: RunningJobService) -> Shell:
    """A shell of the service's admin."""
    monkeypatch.setenv("PENSTOCK_URL", service.url)
    monkeypatch.setenv("PENSTOCK_TOKEN", service.admin)
    return lone_shell
