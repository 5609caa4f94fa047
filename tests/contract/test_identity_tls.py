"""Certificates between processes: a Task Service with TLS on a real port, and callers of all kinds."""

from __future__ import annotations

import gc
import shutil
import socket
import ssl
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from penstock.config.declare import Carried
from penstock.control.errors import Unavailable
from penstock.control.process import wait_until
from penstock.identity.authority import CERTIFICATE_DAYS
from penstock.identity.folder import IdentityFolder
from penstock.identity.outgoing import Outgoing
from penstock.identity.process import ProcessIdentity
from penstock.identity.roles import Caller, Role
from penstock.model.reports import TaskReportBatch, TaskReportChanges
from penstock.wire.cluster import LeaseRequest, as_json
from penstock.wire.http import HttpClient, internal_client
from penstock.wire.task_client import TaskServiceClient
from services.job_service.probes import Probes
from tests.support.identity import make_cell, mixed
from tests.support.task_service.service import RunningTaskService, task_service

HOSTS = ["localhost", "127.0.0.1"]
C1, C2 = Caller(Role.TASK_MANAGER, "c1"), Caller(Role.TASK_MANAGER, "c2")
SAID = {"container": "c1", "incarnation": "1"}
CALLS: tuple[tuple[str, Carried, int], ...] = (
    ("/v1/reports", TaskReportBatch(**SAID, commit_number=1, version=1, tasks=()), 409),
    ("/v1/reports/changes", TaskReportChanges(**SAID, commit_number=1, version=1, number=2, after=1), 200),
    ("/v1/leases", LeaseRequest(**SAID), 200),
)
"""What a container says of itself, and the answer to one that is let in and not registered."""


@pytest.fixture
def cell(tmp_path: Path) -> IdentityFolder:
    """A cell whose Task Service and two containers have certificates."""
    folder = make_cell(tmp_path / "identity")
    for caller in (Caller(Role.TASK_SERVICE), C1, C2):
        folder.issue(caller, HOSTS, datetime.now(UTC))
    return folder


@pytest.fixture
def service(cell: IdentityFolder, database_url: str) -> Iterator[RunningTaskService]:
    with task_service(database_url, identity_dir=cell.path, internal_tls=True) as running:
        assert running.url.startswith("https://")
        yield running.has_read()


def caller(folder: Path, who: Caller) -> httpx.Client:
    return internal_client(Outgoing(ProcessIdentity(folder, who)))


def post(folder: Path, who: Caller, service: RunningTaskService, call: int = 0) -> int:
    path, body, _ = CALLS[call]
    with caller(folder, who) as client:
        return client.post(f"{service.url}{path}", json=as_json(body)).status_code


def test_a_container_speaks_for_itself_only(cell: IdentityFolder, service: RunningTaskService) -> None:
    assert TaskServiceClient(service.url, identity=Outgoing(ProcessIdentity(cell.path, C1))).full() is not None
    for call, (_, _, let_in) in enumerate(CALLS):
        assert post(cell.path, C1, service, call) == let_in
        assert post(cell.path, C2, service, call) == 403


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.TASK_MANAGER])
def test_another_role_is_refused(cell: IdentityFolder, service: RunningTaskService, role: Role) -> None:
    cell.issue(Caller(role), HOSTS, datetime.now(UTC))
    assert post(cell.path, Caller(role), service) == 403
    with caller(cell.path, Caller(role)) as client:
        assert client.get(f"{service.url}/v1/specs").status_code == 403
        # The console is told nothing by other processes: it asks the Job Service, with its users' tokens.
        assert client.get(f"{service.url}/metrics").status_code == (403 if role is Role.CONSOLE else 200)


def test_who_has_no_certificate_may_only_probe(cell: IdentityFolder, service: RunningTaskService) -> None:
    """Neither a signed statement nor a header that names a certificate takes its place."""
    nobody = ssl.create_default_context(cafile=cell.path / "authority.crt")
    signed = {"Penstock-Caller": ProcessIdentity(cell.path, C1).statement("GET", "/v1/specs")}
    with httpx.Client(base_url=service.url, verify=nobody) as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").json() == {"service": "task_service", "status": "ready"}
        for path in ("/v1/specs", "/metrics", "/docs"):
            assert client.get(path, headers=signed).status_code == 401


def test_the_status_asks_services_with_tls(cell: IdentityFolder, service: RunningTaskService, tmp_path: Path) -> None:
    """As the Job Service does, also without a certificate of its own, and told how long theirs are good. One of another
    cell says why it has no answer."""
    for folder, ok in ((cell.path, True), (make_cell(tmp_path / "foreign").path, False)):
        who = Outgoing(ProcessIdentity(folder, Caller(Role.JOB_SERVICE)))
        found = Probes(service.url, (), 60.0, who).services({"task_service": service.url})["task_service"]
        assert (found.error is None) is ok, found
        days_left = found.certificate_days_left
        assert days_left == (pytest.approx(CERTIFICATE_DAYS, abs=1.0) if ok else None)


def test_a_foreign_authority_is_refused_by_both_sides(
    service: RunningTaskService, cell: IdentityFolder, tmp_path: Path
) -> None:
    """1. A caller that trusts another authority hangs up. 2. One that trusts the cell, but shows a certificate of
    another, is hung up on."""
    foreign = make_cell(tmp_path / "foreign")
    foreign.issue(C1, HOSTS, datetime.now(UTC))
    with caller(foreign.path, C1) as client, pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        client.get(f"{service.url}/v1/specs")
    (foreign.path / "authority.crt").write_bytes(cell.trusted())
    with caller(foreign.path, C1) as client, pytest.raises(httpx.TransportError):
        client.get(f"{service.url}/v1/specs")


def test_an_expired_certificate_is_refused(cell: IdentityFolder, service: RunningTaskService) -> None:
    cell.issue(C1, HOSTS, datetime.now(UTC) - timedelta(days=2), days=1)
    with caller(cell.path, C1) as client, pytest.raises(httpx.TransportError):
        client.get(f"{service.url}/v1/specs")
    with pytest.raises(Unavailable):
        TaskServiceClient(service.url, identity=Outgoing(ProcessIdentity(cell.path, C1))).full()


def test_a_connection_does_not_outlive_its_certificate(cell: IdentityFolder, service: RunningTaskService) -> None:
    """Refused with 401 on the connection that was made before."""
    cell.issue(C1, HOSTS, datetime.now(UTC), days=2 / 86_400)
    until = time.time() + 2
    with caller(cell.path, C1) as client:
        assert client.get(f"{service.url}/v1/specs").status_code == 200
        wait_until(lambda: time.time() > until, 5, "the certificate to expire")
        assert client.get(f"{service.url}/v1/specs").status_code == 401


def _read(client: httpx.Client, url: str) -> httpx.Response:
    """As Penstock's clients do, once more where the service has closed the kept connection as the call was sent."""
    try:
        return client.get(url)
    except httpx.RemoteProtocolError:
        return client.get(url)


def test_certificates_and_authority_change_while_clients_are_connected(
    cell: IdentityFolder, service: RunningTaskService
) -> None:
    """1. A new certificate of the caller. 2. A new authority beside the old one. 3. All certificates by the new one.
    4. The old authority goes: a certificate that it issued is refused. The clients and the service run on."""
    shown = _shown_by(service)
    with caller(cell.path, C1) as client, HttpClient(service.url, authority=cell.path / "authority.crt") as anybody:

        def answers() -> bool:
            assert anybody.send("GET", "/healthz", headers={"Connection": "close"}).is_success
            return _read(client, f"{service.url}/v1/specs").status_code == 200

        assert answers()
        cell.issue(C1, HOSTS, datetime.now(UTC))
        assert answers()
        first = shown()
        cell.issue(Caller(Role.TASK_SERVICE), HOSTS, datetime.now(UTC))
        wait_until(lambda: answers() and shown() != first, 10, "the new certificate of the service")
        old = cell.path.with_name("old")
        cell.issue(C1, HOSTS, datetime.now(UTC), to=old)
        cell.add_authority(datetime.now(UTC))
        assert answers()
        before = shown()
        cell.renew(datetime.now(UTC))
        wait_until(lambda: answers() and shown() != before, 10, "the certificate of the new authority")
        (old / "authority.crt").write_bytes(cell.trusted())
        assert post(old, C1, service) == CALLS[0][2]
        assert cell.drop_old_authorities(datetime.now(UTC), unseen=True) == 1
        assert answers()
        (old / "authority.crt").write_bytes(cell.trusted())
        wait_until(lambda: _is_refused(old, service), 10, "the old authority to be forgotten")
        assert answers()


def test_a_caller_may_be_the_first_with_a_new_authority(cell: IdentityFolder, service: RunningTaskService) -> None:
    """A service that looked at its files just before looks again in a handshake."""
    assert post(cell.path, C1, service) == CALLS[0][2]
    cell.add_authority(datetime.now(UTC))
    cell.renew(datetime.now(UTC))
    assert post(cell.path, C1, service) == CALLS[0][2]


def test_a_rotation_that_brings_half_of_the_files_stops_nobody(
    cell: IdentityFolder, service: RunningTaskService
) -> None:
    """
    1. New certificates of caller and service are there, without their keys: new connections go on by those before.
    2. The keys come: the new certificate is shown, and calls go on.
    """
    shown = _shown_by(service)
    client = TaskServiceClient(service.url, identity=Outgoing(ProcessIdentity(cell.path, C1)))
    before, commit = shown(), client.full().commit_number
    keys = mixed(cell, (Caller(Role.TASK_SERVICE), C1), HOSTS)
    changed_at = time.monotonic()
    wait_until(lambda: client.full().commit_number == commit and time.monotonic() > changed_at + 1.5, 10, "a look")
    assert shown() == before
    for path, key in keys.items():
        path.write_bytes(key)
    wait_until(lambda: client.full().commit_number == commit and shown() != before, 10, "the new certificate")


def test_other_protocols_get_no_answer(service: RunningTaskService) -> None:
    """Plain HTTP, and TLS 1.2."""
    port = int(service.url.rsplit(":", 1)[1])
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://127.0.0.1:{port}/healthz")
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode, old.maximum_version = False, ssl.CERT_NONE, ssl.TLSVersion.TLSv1_2
    with socket.create_connection(("127.0.0.1", port)) as raw, pytest.raises(ssl.SSLError):
        old.wrap_socket(raw)


@pytest.mark.parametrize("sent", [b"", b"no handshake at all, but enough of it to be one\r\n\r\n"])
def test_broken_handshakes_leave_no_connection_in_memory(service: RunningTaskService, sent: bytes) -> None:
    """Also before garbage is collected: each would hold 300 KB."""
    port = int(service.url.rsplit(":", 1)[1])
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", port)) as raw:
                raw.sendall(sent)
                raw.shutdown(socket.SHUT_WR)
                while raw.recv(1024):
                    pass
        assert wait_until(lambda: _connections_in_memory() <= 2, 10, "the connections to go")
    finally:
        gc.enable()


def _connections_in_memory() -> int:
    return sum(type(each) is SSLProtocol for each in gc.get_objects())


def _shown_by(service: RunningTaskService) -> Callable[[], str]:
    port = int(service.url.rsplit(":", 1)[1])
    return lambda: ssl.get_server_certificate(("127.0.0.1", port))


def _is_refused(folder: Path, service: RunningTaskService) -> bool:
    try:
        post(folder, C1, service)
    except httpx.TransportError:
        return True
    return False


def test_a_connection_does_not_outlive_the_authority_of_its_certificate(
    cell: IdentityFolder, service: RunningTaskService
) -> None:
    """1. Somebody has taken a container's files, and is connected. 2. The authority is replaced. 3. The connection that
    was made before is refused, and closed. 4. The container itself goes on."""
    stolen = cell.path.with_name("stolen")
    shutil.copytree(cell.path, stolen)
    with caller(stolen, C1) as thief, caller(cell.path, C1) as client:

        def ask(by: httpx.Client) -> httpx.Response:
            return by.get(f"{service.url}/v1/specs")

        assert ask(thief).status_code == ask(client).status_code == 200
        cell.add_authority(datetime.now(UTC))
        cell.renew(datetime.now(UTC))
        assert ask(thief).status_code == ask(client).status_code == 200
        assert cell.drop_old_authorities(datetime.now(UTC), unseen=True) == 1
        refused: list[httpx.Response] = []

        def is_refused() -> bool:
            assert ask(client).status_code == 200
            refused.append(ask(thief))
            return refused[-1].status_code == 401

        wait_until(is_refused, 10, "the old authority to be forgotten")
        assert (refused[-1].json()["rule"], refused[-1].headers["connection"]) == ("issued_by", "close")
        assert ask(client).status_code == 200
        with pytest.raises(httpx.TransportError):
            ask(thief)
