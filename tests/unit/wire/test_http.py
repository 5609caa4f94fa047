"""The client's side of problems: which error a refusal becomes, and what is tried again."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest

from penstock.control.errors import (
    Conflict,
    InvalidConfig,
    NotFound,
    NotLeader,
    PenstockError,
    Unavailable,
    UserError,
    VersionConflict,
)
from penstock.wire.http import HttpClient, error_of, path_of, trusted_by


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (409, {"title": "VersionConflict", "current_version": 4}, VersionConflict),
        (409, {"title": "Conflict"}, Conflict),
        (409, {"title": "of another maker"}, Conflict),
        (422, {"title": "InvalidConfig", "field": "task_count", "rule": "key_groups"}, InvalidConfig),
        (422, {"title": "InvalidRequest"}, InvalidConfig),
        (404, {}, NotFound),
        (418, {}, UserError),
        (503, {"title": "NotLeader"}, NotLeader),
        (503, {}, Unavailable),
        (502, {}, Unavailable),
        (500, {"title": "InternalError"}, PenstockError),
    ],
)
def test_a_refusal_becomes_the_error_that_it_names(status: int, body: dict[str, object], kind: type) -> None:
    error = error_of(httpx.Response(status, json={"detail": "so it is", **body}))
    assert type(error) is kind
    assert error.detail == "so it is"
    if isinstance(error, UserError):
        assert (error.field, error.rule) == (
            body.get("field"),
            body.get("rule") if kind is not VersionConflict else "if_match",
        )


def test_the_text_of_a_refusal_can_be_stored() -> None:
    assert error_of(httpx.Response(400, json={"detail": "12\x00x"})).detail == "12\ufffdx"


def test_the_current_version_and_all_problems_are_carried() -> None:
    conflict = error_of(httpx.Response(409, json={"title": "VersionConflict", "detail": "", "current_version": 4}))
    assert isinstance(conflict, VersionConflict)
    assert conflict.current_version == 4
    invalid = error_of(httpx.Response(422, json={"title": "InvalidConfig", "detail": "x", "errors": [{"field": "a"}]}))
    assert invalid.extra == {"errors": [{"field": "a"}]}


@pytest.mark.parametrize("content", [b"", b"not json", b"[1]", b"<html>"])
def test_an_answer_that_is_no_problem_is_an_error_too(content: bytes) -> None:
    response = httpx.Response(503, content=content, headers={"content-type": "application/json"})
    assert type(error_of(response)) is Unavailable


@pytest.mark.parametrize(
    ("url", "certificates"),
    [
        ("http://127.0.0.1:7070", False),
        ("http://localhost/", False),
        ("http://[::1]:7070", False),
        ("https://127.0.0.1:7070", True),
        ("http://127.0.0.1.example.com", True),
        ("http://127.0.0.1@example.com", True),
        ("http://example.com", True),
        ("http://[::1", True),
    ],
)
def test_only_a_plain_call_to_this_machine_trusts_no_certificates(url: str, certificates: bool) -> None:
    context = trusted_by(url)
    assert bool(context.cert_store_stats()["x509_ca"]) is certificates
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_nobody_there_is_unavailable() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        client = HttpClient(f"http://127.0.0.1:{nobody.getsockname()[1]}")
        with pytest.raises(Unavailable):
            client.send("PUT", "/")
        client.close()


@pytest.mark.parametrize(
    ("name", "sent"), [("a.b_c-1", "a.b_c-1"), ("x/0", "x%2F0"), ("..", "%2E%2E"), ("../../etc", "..%2F..%2Fetc")]
)
def test_a_name_is_one_segment_of_a_path(name: str, sent: str) -> None:
    assert path_of("v1", "jobs", name, "tasks") == f"/v1/jobs/{sent}/tasks"
    request = httpx.Client(base_url="http://penstock/").build_request("GET", path_of("v1", "jobs", name))
    assert request.url.raw_path == f"/v1/jobs/{sent}".encode()


class Flaky(BaseHTTPRequestHandler):
    """Unavailable twice, then well."""

    calls = 0

    def do_GET(self) -> None:
        type(self).calls += 1
        self.send_response(503 if type(self).calls < 3 else 200)
        self.end_headers()

    do_PUT = do_GET

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def flaky() -> Iterator[str]:
    Flaky.calls = 0
    with HTTPServer(("127.0.0.1", 0), Flaky) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_reads_are_tried_again_and_writes_are_not(flaky: str) -> None:
    client = HttpClient(flaky)
    assert client.read("/").status_code == 200
    assert Flaky.calls == 3
    Flaky.calls = 0
    with pytest.raises(Unavailable):
        client.send("PUT", "/")
    assert Flaky.calls == 1
    client.close()
