"""A Job Service for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.wire.job_client import JobClient
from tests.support.job_service import RunningJobService, job_service


@pytest.fixture
def service(database_url: str) -> Iterator[RunningJobService]:
    with job_service(database_url) as running:
        yield running


@pytest.fixture
def client(service: RunningJobService) -> Iterator[JobClient]:
    with service.client() as admin:
        yield admin
