"""A token that calls too often is told when to call again; others are not."""

from __future__ import annotations

import pytest

from penstock.control.errors import TooManyCalls
from penstock.store import tokens
from penstock.store.engine import transaction
from tests.support import calls
from tests.support.job_service.service import job_service


def test_a_token_that_calls_too_often_is_refused_with_a_time(database_url: str) -> None:
    """1. Two calls pass. 2. 429 as a problem, also for a write, whose body is not read. 3. Another token calls."""
    limits = {"job_service_calls_per_second": 0.01, "job_service_calls_at_once": 2}
    with job_service(database_url, **limits) as running:
        headers = {"Authorization": f"Bearer {running.admin}"}
        codes = [calls.get(f"{running.url}/v1/jobs", headers=headers).status_code for _ in range(2)]
        refused = calls.put(f"{running.url}/v1/jobs/j", headers=headers, content=b"no JSON")
        with running.client() as client, pytest.raises(TooManyCalls):
            list(client.list_jobs())
        with transaction(running.engine) as connection:
            other = tokens.recover_admin(connection, "a test")
        told = calls.get(f"{running.url}/v1/jobs", headers={"Authorization": f"Bearer {other}"}).status_code
        well = calls.get(f"{running.url}/healthz").status_code
    assert (codes, refused.status_code, told, well) == ([200, 200], 429, 200, 200)
    assert refused.headers["content-type"] == "application/problem+json"
    assert 90 <= int(refused.headers["retry-after"]) <= 100
    body = refused.json()
    assert (body["title"], body["field"], body["rule"]) == ("TooManyCalls", "Authorization", "calls_per_second")
