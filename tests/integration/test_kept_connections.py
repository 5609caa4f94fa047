"""Processes of a cell keep their connections between two calls: a TLS handshake costs more than a heartbeat."""

from __future__ import annotations

import time

import httpcore._sync.http11
import pytest
from fastapi import FastAPI, Request

from penstock.control.settings import CommonSettings, HttpLimits
from penstock.identity.outgoing import KEPT_SECONDS
from penstock.wire.app import connections, create_internal_app
from penstock.wire.http import internal_client
from tests.support.control.serving import serving
from tests.support.identity import container, identity


@pytest.fixture
def app() -> FastAPI:
    """Its answer is the port that the caller calls from."""
    found = create_internal_app("shard_manager", ready=dict, identity=identity("shard_manager"))

    @found.post("/v1/heartbeats")
    async def port(request: Request) -> int:
        assert request.client is not None
        return request.client.port

    return found


def test_a_connection_is_kept_for_the_next_heartbeat_and_not_for_ever(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = 0.0

    class Later:
        @staticmethod
        def monotonic() -> float:
            return time.monotonic() + passed

    monkeypatch.setattr(httpcore._sync.http11, "time", Later)
    with serving(app) as url, internal_client(container("c1")) as client:

        def port() -> int:
            return int(client.post(f"{url}/v1/heartbeats").raise_for_status().text)

        first = port()
        passed += 20.0
        assert port() == first
        passed += KEPT_SECONDS + 1.0
        assert port() != first


def test_a_server_ends_an_unused_connection_later_than_its_clients() -> None:
    """So none sends a request on a connection that is being closed."""
    for limits in (HttpLimits(), CommonSettings().http_limits()):
        kept = connections(None, limits)["timeout_keep_alive"]
        assert kept == limits.idle_seconds > KEPT_SECONDS
    assert connections(None, HttpLimits(idle_seconds=3))["timeout_keep_alive"] == 3
