"""New files of a running process: taken when they can be used; else what worked before stays."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from penstock.control.errors import TerminalError, Unavailable
from penstock.identity.folder import LOOPBACK_KEY, IdentityFolder
from penstock.identity.process import ProcessIdentity
from penstock.identity.renewing import RenewingTransport
from penstock.identity.roles import Caller, Role
from penstock.wire.endpoints import Endpoints
from tests.support.identity import make_cell, mixed

HOSTS = ["localhost"]
MANAGER = Caller(Role.SHARD_MANAGER)
CONTAINER = Caller(Role.TASK_MANAGER, "c1")


@pytest.fixture
def cell(tmp_path: Path) -> IdentityFolder:
    folder = make_cell(tmp_path / "identity")
    for caller in (MANAGER, CONTAINER):
        folder.issue(caller, HOSTS, datetime.now(UTC), days=10)
    return folder


class Loads:
    """Counts how often certificate and key are read together."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        real = ProcessIdentity._load_pair

        def load(identity: ProcessIdentity, context: ssl.SSLContext) -> None:
            self.count += 1
            real(identity, context)

        monkeypatch.setattr(ProcessIdentity, "_load_pair", load)


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> tuple[str, str]:
    """The serial numbers of the certificates that server and client show, without a network."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    calling = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    called = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (calling, called) * 3:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    shown = calling.getpeercert(), called.getpeercert()
    assert shown[0]
    assert shown[1]
    return str(shown[0]["serialNumber"]), str(shown[1]["serialNumber"])


def test_a_server_keeps_its_certificate_while_the_new_one_cannot_be_used(
    cell: IdentityFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    1. The new certificate is there, its key is not: handshakes go on with the one before, and do not try it again.
    2. The end of the certificate that is used is told, not that of the new one. 3. The key comes: it is taken.
    """
    manager, container = (ProcessIdentity(cell.path, each, tls=True) for each in (MANAGER, CONTAINER))
    server, client = manager.server_context(), container.client_context()
    first, left = shake_hands(client, server), manager.seconds_left()
    keys = mixed(cell, [MANAGER], HOSTS)
    loads = Loads(monkeypatch)
    manager.version(at_once=True)
    for _ in range(5):
        assert shake_hands(client, server) == first
    assert loads.count == 1
    assert left is not None
    assert (manager.seconds_left() or 0.0) < left
    for path, key in keys.items():
        path.write_bytes(key)
    manager.version(at_once=True)
    assert shake_hands(client, server)[0] != first[0]


def test_a_server_whose_files_break_before_the_first_call_answers_it(cell: IdentityFolder) -> None:
    manager, container = (ProcessIdentity(cell.path, each, tls=True) for each in (MANAGER, CONTAINER))
    server, client = manager.server_context(), container.client_context()
    mixed(cell, [MANAGER], HOSTS)
    manager.version(at_once=True)
    assert all(shake_hands(client, server))


def test_a_client_that_had_a_certificate_does_not_go_on_without(cell: IdentityFolder) -> None:
    container = ProcessIdentity(cell.path, CONTAINER)
    container.client_context()
    (cell.path / "task_manager.c1.crt").unlink()
    with pytest.raises(OSError, match="No such file"):
        container.client_context()


class Files:
    """Connections by files that have a version, and may be `broken`."""

    def __init__(self) -> None:
        self.version = 1
        self.broken: Exception | None = None
        self.made = 0
        self.transport = RenewingTransport(self._make, lambda: self.version)

    def ask(self) -> str:
        return self.transport.handle_request(httpx.Request("GET", "http://there")).read().decode()

    def _make(self) -> httpx.BaseTransport:
        self.made += 1
        if self.broken is not None:
            raise self.broken
        text = f"by version {self.version}"
        return httpx.MockTransport(lambda _: httpx.Response(200, text=text))


@pytest.mark.parametrize("error", [TerminalError("they do not fit"), OSError("gone"), ssl.SSLError("torn")])
def test_a_client_keeps_its_connections_until_the_new_files_can_be_used(error: Exception) -> None:
    """1. It has connections. 2. New files are broken: tried once. 3. And again only when they change."""
    files = Files()
    assert files.ask() == "by version 1"
    files.version, files.broken = 2, error
    assert [files.ask() for _ in range(3)] == ["by version 1"] * 3
    assert files.made == 2
    files.version, files.broken = 3, None
    assert files.ask() == "by version 3"


class Refusals:
    """A server that trusts the first version of the files no more; a client looks at its files once a second."""

    def __init__(self) -> None:
        self.files = self.looked_at = 1
        self.asked: list[int] = []
        self.transport = RenewingTransport(self._make, lambda: self.looked_at, look=self._look)

    def ask(self) -> int:
        return self.transport.handle_request(httpx.Request("POST", "http://there", content=b"said")).status_code

    def _look(self) -> int:
        self.looked_at = self.files
        return self.looked_at

    def _make(self) -> httpx.BaseTransport:
        made_by = self.looked_at

        def answer(request: httpx.Request) -> httpx.Response:
            assert request.read() == b"said"
            self.asked.append(made_by)
            return httpx.Response(200) if made_by > 1 else httpx.Response(401, headers={"Connection": "close"})

        return httpx.MockTransport(answer)


def test_a_client_whose_connection_is_refused_looks_at_its_files_and_asks_again() -> None:
    """1. Its files are those before: it is refused. 2. There are new ones: it asks once more, by them."""
    refusals = Refusals()
    assert (refusals.ask(), refusals.asked) == (401, [1])
    refusals.files = 2
    assert (refusals.ask(), refusals.asked) == (200, [1, 1, 2])
    assert (refusals.ask(), refusals.asked) == (200, [1, 1, 2, 2])


def test_an_identity_that_cannot_be_used_is_a_service_that_is_not_reached() -> None:
    """Callers can go on alone, and know only that error. None of the addresses is left out."""
    files = Files()
    files.broken = TerminalError("they do not fit")

    class Broken:
        caller = CONTAINER

        def credentials(self) -> tuple[httpx.Auth, httpx.BaseTransport]:
            return httpx.Auth(), files.transport

    endpoints = Endpoints("the Shard Manager", "http://one,http://two", timeout_seconds=1.0, identity=Broken())
    with pytest.raises(Unavailable, match=r"one.*do not fit.*two.*do not fit"):
        endpoints.request("GET", "/v1/specs")


def test_statements_are_signed_with_the_secret_before_while_the_new_one_cannot_be_read(cell: IdentityFolder) -> None:
    caller, server = (ProcessIdentity(cell.path, each) for each in (CONTAINER, MANAGER))
    assert server.verified(caller.statement("GET", "/v1/specs"), "GET", "/v1/specs").caller == CONTAINER
    (cell.path / LOOPBACK_KEY).write_bytes(b"")
    for each in (caller, server):
        each.version(at_once=True)
    assert server.verified(caller.statement("GET", "/v1/specs"), "GET", "/v1/specs").caller == CONTAINER
