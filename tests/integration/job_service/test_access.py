"""Tokens: who may do what; and Idempotency-Key."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import anyio
import httpx
import pytest
from sqlalchemy import text

from penstock.control.errors import Conflict, Forbidden, InvalidConfig, NotFound, Unauthenticated
from penstock.model.alerts import AlertKind
from penstock.model.jobs import Role
from penstock.store import tokens
from penstock.store.alerts import raise_alert
from penstock.store.engine import connect, transaction
from penstock.wire.alerts import SilenceWrite
from penstock.wire.http import certificates
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import BatchAction, BatchWrite
from penstock.wire.layers import LayerAdd, LayerChange
from services.job_service import requests
from services.job_service.strictjson import strict_json
from tests.support import calls
from tests.support.job_service.service import CONFIG, RunningJobService, job_service

Call = Callable[[JobClient], object]
SILENCE = SilenceWrite(subject="etl", reason="release", expires_in_seconds=60)
CALLS: dict[str, Call] = {
    "read": lambda client: client.get_job("etl"),
    "plan": lambda client: client.plan("etl", {"priority": 1}),
    "base": lambda client: client.put_job("etl", CONFIG),
    "provisioner": lambda client: client.put_layer("etl", "provisioner", {"priority": 1}, if_match=0),
    "scaler": lambda client: client.put_layer("etl", "scaler", {"priority": 1}, if_match=0),
    "oncall": lambda client: client.put_layer("etl", "oncall", {"priority": 1}, if_match=0),
    "restart": lambda client: client.restart("etl"),
    "add_layer": lambda client: client.add_layer(LayerAdd(name="canary", rank=150)),
    "change_layer": lambda client: client.change_layer("oncall", LayerChange(rank=300)),
    "remove_layer": lambda client: client.remove_layer("canary"),
    "shards": lambda client: client.ask_for_shards(2048),
    "leaders": lambda client: client.leaders(),
    "cell_history": lambda client: client.cell_history(),
    "silences": lambda client: client.silences(),
    "silence": lambda client: client.silence(SILENCE),
    "acknowledge": lambda client: client.acknowledge(1),
    "forget": lambda client: client.forget_container("c0"),
    "list_tokens": lambda client: client.tokens(),
    "create_token": lambda client: client.create_token("new", "reader"),
    "rotate_token": lambda client: client.rotate_token("new"),
    "revoke_token": lambda client: client.revoke_token("new"),
    "delete": lambda client: client.delete_job("etl"),
}
READS = {"read", "leaders", "cell_history", "silences"}
MAY: dict[Role, set[str]] = {
    "reader": READS,
    "provisioner": {*READS, "plan", "base", "provisioner", "delete"},
    "scaler": {*READS, "plan", "scaler"},
    "oncall": {*READS, "plan", "oncall", "restart", "silence", "acknowledge", "forget"},
    "admin": set(CALLS),
}


@pytest.mark.parametrize("role", MAY)
def test_each_role_may_do_what_it_is_for(service: RunningJobService, client: JobClient, role: Role) -> None:
    client.put_job("etl", CONFIG)
    with transaction(service.engine) as connection:
        raise_alert(connection, AlertKind.JOB_LAGGING, "etl", "it lags")
        connection.execute(
            text(
                "INSERT INTO containers (name, incarnation, url, region, cpu_cores, memory_bytes, disk_bytes, state)"
                " VALUES ('c0', 'i', 'http://c0', 'here', 2, 1, 1, 'lost')"
            )
        )
    with service.client(client.create_token(f"a-{role}", role)) as holder:
        assert {name for name, call in CALLS.items() if _is_allowed(call, holder)} == MAY[role]


def test_without_a_token_no_body_is_read(service: RunningJobService) -> None:
    """The caller says that a body follows, and sends none: an answer comes at once. So does the one about its size."""
    with httpx.Client(base_url=service.url, verify=certificates()) as caller:
        assert caller.put("/v1/jobs/etl", content=b"[1,1").status_code == 401
    host, port = service.url.removeprefix("http://").split(":")
    for headers, status in (("", b" 401 "), (f"Authorization: Bearer {service.admin}\r\n", b" 413 ")):
        with socket.create_connection((host, int(port)), timeout=10) as caller:
            length = f"Content-Length: {2**30}\r\n"
            caller.sendall(f"PUT /v1/jobs/etl HTTP/1.1\r\nHost: x\r\n{length}{headers}\r\n".encode())
            assert status in caller.recv(1000).splitlines()[0]


def test_a_large_body_is_read_on_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    readers: list[str] = []

    def noted(body: bytes) -> object:
        readers.append(threading.current_thread().name)
        return strict_json(body)

    monkeypatch.setattr(requests, "strict_json", noted)
    for body in (b"[]", b"[" + b" " * 10**6 + b"]"):
        assert anyio.run(requests._read, body) == []
    assert (readers[0] == threading.current_thread().name, readers[1] == readers[0]) == (True, False)


def test_no_call_is_redirected(service: RunningJobService) -> None:
    with httpx.Client(base_url=service.url, verify=certificates()) as caller:
        assert caller.get("/v1/jobs/", headers={"Host": "evil"}).status_code == 404


def test_a_token_writes_the_layers_that_it_names(service: RunningJobService, client: JobClient) -> None:
    client.put_job("etl", CONFIG)
    with service.client(client.create_token("canary-bot", "oncall", ["scaler"])) as holder:
        holder.put_layer("etl", "scaler", {"priority": 1}, if_match=0)
        with pytest.raises(Forbidden):
            holder.put_layer("etl", "oncall", {"priority": 1}, if_match=0)
        write = BatchWrite(action=BatchAction.PUT, job="etl", layer="oncall", config={}, if_match=0)
        assert [result.status for result in holder.batch([write])] == [403]
    assert client.history("etl", layer="scaler").entries[0].author == "canary-bot"


@pytest.mark.parametrize("header", [None, "Bearer pst_unknown", "Bearer é", "Basic YTpi", "Bearer"])
def test_nobody_gets_in_without_a_good_token(service: RunningJobService, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header.encode("utf-8")}
    response = calls.get(f"{service.url}/v1/jobs", headers=headers)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.json()["title"] == "Unauthenticated"


def test_a_revoked_token_is_no_token_and_its_name_stays_taken(service: RunningJobService, client: JobClient) -> None:
    with service.client(client.create_token("ann", "reader")) as holder:
        assert holder.fields()
        client.revoke_token("ann")
        with pytest.raises(Unauthenticated):
            holder.fields()
    with pytest.raises(Conflict):
        client.create_token("ann", "admin")
    with pytest.raises(NotFound):
        client.revoke_token("bob")


def test_a_token_is_remembered_only_for_the_time_set(database_url: str) -> None:
    """Within it a revoked token is still good: what is gained is a query less a request."""
    with (
        job_service(database_url, job_service_token_cache_seconds=3600.0) as service,
        service.client() as admin,
        service.client(admin.create_token("ann", "reader")) as holder,
    ):
        assert holder.fields()
        admin.revoke_token("ann")
        assert holder.fields()


def test_the_store_keeps_no_token(service: RunningJobService, client: JobClient) -> None:
    token = client.create_token("ann", "reader")
    assert token.startswith("pst_")
    with transaction(service.engine) as connection:
        stored = connection.execute(text("SELECT string_agg(tokens::text, ' ') FROM tokens")).scalar_one()
    assert token not in stored
    assert service.admin not in stored
    assert tokens.digest(token) in stored


def test_there_is_one_first_admin_however_many_ask(database_url: str) -> None:
    engine = connect(database_url)

    def ask(_: int) -> str | None:
        with transaction(engine) as connection:
            return tokens.create_first_admin(connection)

    with ThreadPoolExecutor(6) as pool:
        assert sum(token is not None for token in pool.map(ask, range(6))) == 1
    with transaction(engine) as connection:
        connection.execute(text("UPDATE tokens SET revoked_at = now()"))
        assert tokens.create_first_admin(connection) is None
    engine.dispose()


def test_without_authentication_anybody_on_this_machine_is_admin(database_url: str) -> None:
    with job_service(database_url, authentication=False) as service, JobClient(service.url) as anybody:
        anybody.put_job("etl", CONFIG)
        assert anybody.history("etl").entries[0].author == "anonymous"


def test_a_repeated_key_gets_the_first_answer(client: JobClient) -> None:
    client.put_job("etl", CONFIG, idempotency_key="create")
    first = client.put_layer("etl", "oncall", {"priority": 1}, if_match=0, idempotency_key="k")
    again = client.put_layer("etl", "oncall", {"priority": 1}, if_match=0, idempotency_key="k")
    assert again == first
    assert client.restart("etl", idempotency_key="r") == client.restart("etl", idempotency_key="r")
    assert client.get_job("etl").restarts == 1
    assert len(client.history("etl").entries) == 3


def test_a_key_is_good_for_one_call_only(client: JobClient) -> None:
    client.put_job("etl", CONFIG)
    client.put_layer("etl", "oncall", {"priority": 1}, if_match=0, idempotency_key="k")
    with pytest.raises(InvalidConfig) as refused:
        client.put_layer("etl", "oncall", {"priority": 2}, if_match=1, idempotency_key="k")
    assert (refused.value.field, refused.value.rule) == ("Idempotency-Key", "idempotency_key")


def test_a_refused_call_does_not_use_its_key_up(client: JobClient) -> None:
    with pytest.raises(NotFound):
        client.put_layer("etl", "oncall", {"priority": 1}, if_match=0, idempotency_key="k")
    client.put_job("etl", CONFIG)
    assert client.put_layer("etl", "oncall", {"priority": 1}, if_match=0, idempotency_key="k").version == 1


def test_keys_of_different_tokens_are_different(service: RunningJobService, client: JobClient) -> None:
    client.put_job("etl", CONFIG)
    client.restart("etl", idempotency_key="k")
    with service.client(client.create_token("bob", "oncall")) as other:
        other.restart("etl", idempotency_key="k")
    assert client.get_job("etl").restarts == 2


def test_of_many_at_once_with_one_key_one_is_done(service: RunningJobService, client: JobClient) -> None:
    client.put_job("etl", CONFIG)

    def restart(_: int) -> int:
        with service.client() as rival:
            return rival.restart("etl", idempotency_key="same").revision

    with ThreadPoolExecutor(8) as pool:
        revisions = set(pool.map(restart, range(16)))
    assert len(revisions) == 1
    assert client.get_job("etl").restarts == 1


def test_a_repeated_creation_of_a_token_does_not_show_it_again(service: RunningJobService) -> None:
    headers = {"Authorization": f"Bearer {service.admin}", "Idempotency-Key": "k"}
    body = {"name": "ann", "role": "reader"}
    first, again = (calls.post(f"{service.url}/v1/tokens", json=body, headers=headers).json() for _ in range(2))
    assert (first["token"][:4], again["token"]) == ("pst_", None)
    with transaction(service.engine) as connection:
        kept = connection.execute(text("SELECT string_agg(idempotency::text, ' ') FROM idempotency")).scalar_one()
    assert first["token"] not in kept


def _is_allowed(call: Call, client: JobClient) -> bool:
    try:
        call(client)
    except Forbidden:
        return False
    return True
