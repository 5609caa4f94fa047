"""A token that calls too often is told when to call again; others are not."""

from __future__ import annotations

import json

import httpx
import pytest

from penstock.control.errors import TooManyCalls
from penstock.model.alerts import AlertKind
from penstock.store import tokens
from penstock.store.engine import transaction
from penstock.wire.alerts import SilenceWrite
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


def test_bodies_of_a_role_and_bytes_of_a_token_have_limits(database_url: str) -> None:
    """1. A body that is too large for the role is refused. 2. One passes. One without a length passes too, and counts
    afterwards; the next is too much for now, with a length and without one. 3. Calls without a body, and another token,
    go on."""
    limits = {
        "job_service_largest_body_of_roles": {"oncall": 400},
        "job_service_bytes_per_second": 0.5,
        "job_service_bytes_at_once": 300,
    }
    with job_service(database_url, **limits) as running, running.client() as admin:
        token = admin.create_token("tool", "oncall", expires_in_seconds=3600)
        url = f"{running.url}/v1/silences"
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

        def silence(reason: str, *, is_in_chunks: bool = False) -> httpx.Response:
            body = json.dumps({"kind": "quarantined", "reason": reason, "expires_in_seconds": 60}).encode()
            return httpx.post(url, headers=headers, content=iter([body]) if is_in_chunks else body)

        assert silence("x" * 400).status_code == 413
        assert silence("x" * 200).status_code == 201
        assert silence("y" * 200, is_in_chunks=True).status_code == 201
        for is_in_chunks in (False, True):
            refused = silence("y" * 200, is_in_chunks=is_in_chunks)
            assert (refused.status_code, refused.json()["rule"]) == (429, "bytes_per_second")
            assert int(refused.headers["retry-after"]) > 60
        assert httpx.get(url, headers=headers).status_code == 200
        assert [each.reason[:1] for each in admin.silences().silences] == ["y", "x"]
        admin.silence(SilenceWrite(kind=AlertKind.QUARANTINED, reason="z", expires_in_seconds=60))
