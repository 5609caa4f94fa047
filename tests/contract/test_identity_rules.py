"""The table of who may call what, against the routes that services really have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.routing import Route

from penstock.identity.rules import METRICS, OPEN, RULES
from penstock.identity.statements import HEADER
from penstock.wire.app import create_internal_app
from services.auto_scaler import api as auto_scaler
from services.shard_manager import api as shard_manager
from services.task_manager import api as task_manager
from services.task_service import api as task_service
from tests.support import calls, identity
from tests.support.control.serving import serving

NOTHING: Any = None
IDENTITY = identity.identity("shard_manager")
APPS: dict[str, FastAPI] = {
    "shard_manager": shard_manager.build_app(type("Heartbeats", (), {"readiness": dict})(), IDENTITY),  # type: ignore[arg-type]
    "task_manager": task_manager.build_app(NOTHING, IDENTITY),
    "task_service": task_service.build_app(NOTHING, NOTHING, NOTHING, longest_wait_seconds=1.0, identity=IDENTITY),
    "state_syncer": create_internal_app("state_syncer", ready=dict, identity=IDENTITY),
    "auto_scaler": auto_scaler.build_app(NOTHING, ready=dict, identity=IDENTITY),
}


def routes(service: str) -> Iterator[tuple[str, str, str]]:
    for route in APPS[service].routes:
        assert isinstance(route, Route), f"{route} is no call over HTTP, so the gate does not know it"
        yield from ((service, method, route.path) for method in (route.methods or ()) if method != "HEAD")


@pytest.mark.parametrize("service", APPS)
def test_every_route_of_a_service_has_a_row_and_every_row_a_route(service: str) -> None:
    open_to_all = {(service, *call) for call in (*OPEN, METRICS)}
    assert set(routes(service)) == {call for call in RULES if call[0] == service} | open_to_all


def test_a_route_without_a_row_is_refused() -> None:
    """A call that somebody adds, and forgets in the table."""
    app = create_internal_app("auto_scaler", ready=dict, identity=IDENTITY)
    app.add_api_route("/v1/secrets", lambda: {"token": "x"}, methods=["GET"])
    with serving(app) as url:
        assert calls.get(f"{url}/v1/secrets").status_code == 401
        assert calls.get(f"{url}/v1/secrets", auth=identity.auth("job_service")).status_code == 404


def test_who_is_not_of_the_cell_learns_no_details() -> None:
    app = create_internal_app("auto_scaler", ready=lambda: {"role": "leader"}, identity=IDENTITY)
    with serving(app) as url:
        assert calls.get(f"{url}/readyz").json() == {"service": "auto_scaler", "status": "ready"}
        assert calls.get(f"{url}/readyz", auth=identity.auth(identity.OBSERVER)).json()["role"] == "leader"


def test_a_statement_is_good_once_and_for_one_body() -> None:
    """1. A call goes through. 2. Who has seen it sends it again. 3. Or with another body, whole or in parts, before it
    arrived. Both are refused, and the service does nothing."""
    taken: list[dict[str, str]] = []

    def take(body: dict[str, str]) -> None:
        taken.append(body)

    app = create_internal_app("shard_manager", ready=dict, identity=IDENTITY)
    app.add_api_route("/v1/heartbeats", take, methods=["POST"])
    caller, target = identity.identity("task_manager/c1"), "/v1/heartbeats"
    signed = [caller.statement("POST", target, b'{"a": "b"}') for _ in range(3)]
    seen, unseen, in_parts = ({HEADER: each, "Content-Type": "application/json"} for each in signed)
    with serving(app) as url:
        assert calls.post(url + target, content=b'{"a": "b"}', headers=seen).status_code == 200
        again = calls.post(url + target, content=b'{"a": "b"}', headers=seen)
        assert (again.status_code, again.json()["rule"]) == (401, "signed")
        assert "another body" in calls.post(url + target, content=b'{"a": "c"}', headers=unseen).json()["detail"]
        assert calls.post(url + target, content=iter([b'{"a": "b"', b"} "]), headers=in_parts).status_code == 401
    assert taken == [{"a": "b"}]


def test_what_the_store_cannot_hold_is_refused_by_its_field() -> None:
    """Of the right process, before the service does anything with it."""
    capacity = {"cpu_cores": 1, "memory_bytes": 10**300, "disk_bytes": 1}
    said = {"container": "c1", "url": "http://c1", "region": "r", "incarnation": "i", "held": {}, "capacity": capacity}
    with serving(APPS["shard_manager"]) as url:
        answer = calls.post(f"{url}/v1/heartbeats", json=said, auth=identity.auth_of_container("c1"))
    assert (answer.status_code, answer.json()["field"]) == (422, "body.capacity.memory_bytes")
