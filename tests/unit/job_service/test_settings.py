"""When the users' port speaks TLS."""

from __future__ import annotations

from typing import Any

import pytest

from services.job_service.settings import JobServiceSettings


@pytest.mark.parametrize(
    ("settings", "scheme"),
    [
        ({}, "http"),
        ({"internal_tls": True}, "https"),
        ({"host": "0.0.0.0"}, "https"),
        ({"host": "0.0.0.0", "job_service_tls": False}, "http"),
    ],
)
def test_users_are_served_with_tls_also_on_loopback_when_it_is_asked_for(settings: dict[str, Any], scheme: str) -> None:
    found = JobServiceSettings(**settings)
    assert found.serves_tls() is (scheme == "https")
    assert found.url().startswith(f"{scheme}://")
