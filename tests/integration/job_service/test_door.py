"""The HTTP door: who comes in with a body, which methods a path has, and the page that explains the calls."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from penstock.wire.http import certificates
from tests.support import calls
from tests.support.job_service.service import RunningJobService

JSON = {"Content-Type": "application/json"}


def _paths(service: RunningJobService) -> dict[str, dict[str, Any]]:
    document: dict[str, dict[str, Any]] = calls.get(f"{service.url}/openapi.json").json()["paths"]
    return {re.sub(r"{\w+}", "1", path): methods for path, methods in document.items()}


def _calls(service: RunningJobService) -> Iterator[tuple[str, str]]:
    for path, methods in _paths(service).items():
        if path.startswith("/v1/"):
            yield from ((method.upper(), path) for method in methods)


def _answers_without_a_body(service: RunningJobService, token: str) -> dict[str, bytes]:
    """The first line of each call's answer. Each announces a body and sends none: one that waits for it answers 408."""
    parts = urlsplit(service.url)
    found = {}
    for method, path in _calls(service):
        with socket.create_connection((str(parts.hostname), parts.port or 0), timeout=30) as caller:
            headers = ("Host: x", f"Authorization: Bearer {token}", "Content-Length: 9000", "", "")
            caller.sendall("\r\n".join((f"{method} {path} HTTP/1.1", *headers)).encode())
            found[f"{method} {path}"] = caller.recv(1000).splitlines()[0]
    return found


def test_no_call_reads_a_body_before_it_knows_the_caller(service: RunningJobService) -> None:
    found = _answers_without_a_body(service, "pst_wrong")
    assert {"POST /v1/batches", "DELETE /v1/packages/1/1"} <= found.keys()
    assert {call: line for call, line in found.items() if b" 401 " not in line} == {}


def test_no_call_reads_the_body_of_a_caller_who_may_not_make_it(service: RunningJobService) -> None:
    """A reader is refused every call that writes, before it learns what is wrong with what it asks for."""
    with service.client() as admin:
        found = _answers_without_a_body(service, admin.create_token("eye", "reader"))
    writes = {call: line for call, line in found.items() if not call.startswith("GET ")}
    assert len(writes) >= 30
    assert {call: line for call, line in writes.items() if b" 403 " not in line} == {}


def test_a_wrong_method_is_told_all_methods_of_the_path(service: RunningJobService) -> None:
    """Of every path, whichever route has the method."""
    with httpx.Client(base_url=service.url, verify=certificates()) as caller:
        for path, methods in _paths(service).items():
            response = caller.request("TRACE", path)
            assert response.status_code == 405, path
            assert response.headers["allow"] == ", ".join(sorted(method.upper() for method in methods)), path
            assert response.json()["status"] == 405


def test_the_page_of_the_calls_loads_nothing(service: RunningJobService) -> None:
    """Without a token. Its policy allows its own style only, and it has no link that leads elsewhere."""
    answer = calls.get(f"{service.url}/docs")
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    for path in calls.get(f"{service.url}/openapi.json").json()["paths"]:
        assert f"<code>{path}</code>" in answer.text
    assert not re.findall(r"<(script|link|img|iframe|object|embed|form)", answer.text)
    assert set(re.findall(r'(?:href|src)="([^"#]+)"', answer.text)) == {"/openapi.json"}
    assert not re.findall(r"<\w+[^>]*\son\w+=", answer.text)


@pytest.mark.parametrize(
    ("method", "path", "body", "key"),
    [
        ("PUT", "/v1/jobs/etl", '{"config": {"owner": "ann", "owner": "eve"}}', "owner"),
        ("PUT", "/v1/jobs/etl", '{"config": {}, "config": {"owner": "eve"}}', "config"),
        ("POST", "/v1/batches", '{"writes": [{"action": "restart", "job": "a", "job": "b"}]}', "job"),
        ("POST", "/v1/tokens", r'{"name": "a", "role": "reader", "r\u006fle": "admin"}', "role"),
        ("PATCH", "/v1/jobs/etl/layers/oncall", '{"config": {"a": {"b": [{"c": 1, "c": 2}]}}}', "c"),
    ],
)
def test_a_key_that_occurs_twice_is_refused(
    service: RunningJobService, method: str, path: str, body: str, key: str
) -> None:
    headers = {**JSON, "Authorization": f"Bearer {service.admin}", "If-Match": '"0"'}
    with httpx.Client(base_url=service.url, verify=certificates(), headers=headers) as caller:
        answer = caller.request(method, path, content=body)
        assert answer.status_code == 422
        assert (answer.json()["field"], answer.json()["rule"]) == (key, "duplicate_key")
        assert [token["name"] for token in caller.get("/v1/tokens").json()["tokens"]] == ["admin"]


@pytest.mark.parametrize("version", ["../1", "1/2", "..", ".hidden", "a\\b", "1\n", "", "%2e%2e"])
def test_a_package_version_is_no_path(service: RunningJobService, version: str) -> None:
    config = {"package": {"name": "rules", "version": version}}
    headers = {"Authorization": f"Bearer {service.admin}"}
    answer = calls.put(f"{service.url}/v1/jobs/etl", json={"config": config}, headers=headers)
    assert answer.status_code == 422
    problems = [answer.json(), *(answer.json().get("errors") or [])]
    assert "package.version" in [problem["field"] for problem in problems]
