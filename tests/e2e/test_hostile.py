"""Calls of who does not belong, on every port of a real stack: each is refused, and nothing changes."""

from __future__ import annotations

import hashlib
import json
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psycopg
import pytest

from penstock.control.process import wait_until
from penstock.identity.process import ProcessIdentity
from penstock.identity.roles import Caller, Role
from penstock.identity.rules import RULES
from penstock.identity.statements import HEADER, statement
from penstock.local.ports import LOOPBACK
from penstock.local.services import PORTS
from penstock.store.address import libpq_url
from tests.support.chaos.stack import ChaosStack
from tests.support.identity import OBSERVER, auth, make_cell
from tests.support.stack.rows import RowJob

REFUSALS = {401, 403, 404, 405, 413, 422}
AT_LEAST = 80
TASKS = 2
LOOKS = 3
CONTAINER, OTHER = "task_manager_1", "task_manager_2"
HUGE = 2**62
INTERNAL = ("state_syncer", "task_service", "shard_manager", "auto_scaler", CONTAINER)
VOLATILE = (
    "leases",
    "loop_rounds",
    "task_loads",
    "reports",
    "tasks",
    "containers",
    "decisions",
    "alerts",
    "flows",
    "sampled",
    "generations",
)
"""Tables that change by themselves, as samples do, and as unused generations are removed; of three of them what does
not is looked at."""
STEADY = (
    "SELECT name, incarnation, url FROM containers ORDER BY name",
    "SELECT container, job, index, revision, generation, epoch FROM tasks ORDER BY job, index",
    "SELECT job, max(generation) FROM generations GROUP BY job ORDER BY job",
)
Sign = Callable[[str, str, bytes], Mapping[str, str]]
"""The headers for a method, a target and a body."""


class Attempt(NamedTuple):
    """One call, and who makes it."""

    who: str
    service: str
    method: str
    target: str
    headers: Mapping[str, str] = {}
    body: bytes = b""

    def __str__(self) -> str:
        return f"{self.who}: {self.method} {self.service} {self.target}"


class Callers:
    """Who calls, by name: nobody, who has no secret of this cell, and processes of it in a role that is not theirs."""

    def __init__(self, folder: Path, foreign: Path) -> None:
        self._folder, self._foreign = folder, foreign

    def of(self, caller: Caller) -> Sign:
        identity = ProcessIdentity(self._folder, caller)
        return lambda method, target, body: {HEADER: identity.statement(method, target, body)}

    def strangers(self, caller: Caller) -> dict[str, Sign]:
        """Who says to be this caller, and is not."""
        foreign, real = ProcessIdentity(self._foreign, caller), ProcessIdentity(self._folder, caller)
        secret = (self._folder / "loopback.key").read_bytes().split()[0]
        return {
            "nobody": lambda *_: {},
            "of another cell": lambda *call: {HEADER: foreign.statement(*call)},
            "with the statement of another call": lambda *_: {HEADER: real.statement("GET", "/v1/none")},
            "with an old statement": lambda *call: {
                HEADER: statement(secret, caller, *call, nonce="old", now=real.now() - 3600)
            },
        }


@pytest.fixture
def callers(stack: ChaosStack, tmp_path: Path) -> Callers:
    return Callers(stack.plan.identity_dir, make_cell(tmp_path / "foreign").path)


@pytest.mark.long
def test_who_does_not_belong_changes_nothing(stack: ChaosStack, rows: RowJob, callers: Callers) -> None:
    """1. A job runs. 2. Calls without an identity, with a foreign one, in a wrong role, for another container, and of
    the right role with names, epochs and bodies that no process sends. 3. Each is refused. 4. The store has what it
    had, and the containers run what they ran, in the same processes."""
    rows.send_and_wait()
    incarnations = dict(_query(stack, "SELECT name, incarnation FROM containers"))
    attempts = [
        *_strangers(callers),
        *_wrong_roles(callers),
        *_forgeries(callers, incarnations),
        *_of_users(stack, rows),
    ]
    assert len(attempts) >= AT_LEAST
    before = _state_at_rest(stack)
    with httpx.Client(timeout=10.0, trust_env=False) as client:
        answers = {str(attempt): _answer(client, stack, attempt) for attempt in attempts}
    wrong = {attempt: status for attempt, status in answers.items() if status not in REFUSALS}
    assert not wrong
    with suppress(TimeoutError):
        wait_until(lambda: _state(stack) == before, 10, "the containers to run what they ran, and the store to have it")
    assert _state(stack) == before
    rows.send_and_wait()
    rows.assert_exact()


@pytest.mark.parametrize("service", [*sorted(PORTS.keys() - {"console"}), CONTAINER])
def test_a_port_of_this_machine_speaks_no_tls(stack: ChaosStack, service: str) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((LOOPBACK, stack.plan.ports[service]), timeout=5) as raw,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        context.wrap_socket(raw)


def _strangers(callers: Callers) -> Iterator[Attempt]:
    """On every internal call, and on a call that no port has."""
    calls = [*RULES, *((service, "GET", "/metrics/x") for service in INTERNAL)]
    for service, method, route in calls:
        role = min(RULES.get((service, method, route), [Role.OBSERVER]))
        caller = Caller(role, CONTAINER if role is Role.TASK_MANAGER else None)
        for who, sign in callers.strangers(caller).items():
            yield _call(who, sign, service, method, route)


def _wrong_roles(callers: Callers) -> Iterator[Attempt]:
    for (service, method, route), roles in RULES.items():
        for role in sorted(set(Role) - roles):
            sign = callers.of(Caller(role, OTHER if role is Role.TASK_MANAGER else None))
            yield _call(role, sign, service, method, route, _body(route, {}))


def _forgeries(callers: Callers, incarnations: Mapping[str, str]) -> Iterator[Attempt]:
    """Of processes that belong to the cell: for another container, and what no process sends."""
    other = callers.of(Caller(Role.TASK_MANAGER, OTHER))
    of_containers = {call for call, roles in RULES.items() if call[1] == "POST" and roles == {Role.TASK_MANAGER}}
    for service, _, route in sorted(of_containers):
        for container in (CONTAINER, "new_container", "../../x", ""):
            body = _body(route, incarnations) | {"container": container}
            yield _call(f"{OTHER} for {container!r}", other, service, "POST", route, body)
    leader = callers.of(Caller(Role.SHARD_MANAGER))
    for verb in ("drop", "add"):
        for field in ("leader_epoch", "version", "shards"):
            body = _body("/v1/shards/", incarnations) | {field: {"0": HUGE} if field == "shards" else HUGE}
            yield _call(f"a huge {field}", leader, CONTAINER, "POST", f"/v1/shards/{verb}", body)
    syncer = callers.of(Caller(Role.STATE_SYNCER))
    for name in ("../../x", "..", "/etc", "a/../b", "A", ""):
        for field in ("job", "name"):
            request = {"kind": "remove_savepoint", "job": "rows", "name": "v1", "number": 1, field: name}
            body = {"leader_epoch": 1, "request": request}
            yield _call(f"{field} {name!r}", syncer, CONTAINER, "PUT", "/v1/host-tasks/x", body)
    removal = {"kind": "remove_generation", "job": "../x", "generation": 1, "forgotten": True}
    body = {"leader_epoch": HUGE, "request": removal}
    yield _call("a removal elsewhere", syncer, CONTAINER, "PUT", "/v1/host-tasks/x", body)
    yield _call("a huge epoch", syncer, CONTAINER, "DELETE", f"/v1/host-tasks/x?leader_epoch={HUGE}")
    for service, role in ((CONTAINER, Role.SHARD_MANAGER), ("task_service", Role.TASK_MANAGER)):
        route = "/v1/shards/drop" if role is Role.SHARD_MANAGER else "/v1/reports"
        sign = callers.of(Caller(role, OTHER if role is Role.TASK_MANAGER else None))
        attempt = _call("a huge body", sign, service, "POST", route)
        yield attempt._replace(headers={**attempt.headers, "Content-Length": str(2**40)})


def _of_users(stack: ChaosStack, rows: RowJob) -> Iterator[Attempt]:
    """The users' port: without a token, with that of nobody, with a process's statement, and with the scaler's."""
    scaler = (stack.data_dir / "scaler.token").read_text()
    job = f"/v1/jobs/{rows.name}"
    writes: list[tuple[str, str, Any]] = [
        ("PUT", job, {"config": {}}),
        ("DELETE", job, {}),
        ("POST", f"{job}/restart", {}),
        ("POST", "/v1/tokens", {"name": "mine", "role": "admin"}),
        ("PUT", f"{job}/layers/oncall", {"config": {"task_count": 1}, "reason": "x"}),
    ]
    statement_of = Callers(stack.plan.identity_dir, stack.plan.identity_dir).of(Caller(Role.STATE_SYNCER))
    for method, target, body in writes:
        bearers = {
            "nobody": {},
            "a wrong token": {"Authorization": "Bearer x"},
            "a process": statement_of(method, target, _encoded(body)),
            "the scaler": {"Authorization": f"Bearer {scaler}", "If-Match": '"0"'},
        }
        for who, headers in bearers.items():
            yield Attempt(who, "job_service", method, target, headers, _encoded(body))
    for target in ("/v1/jobs", job, "/v1/alerts", "/v1/tokens", "/v1/containers"):
        yield Attempt("nobody", "job_service", "GET", target)


def _call(who: str, sign: Sign, service: str, method: str, route: str, body: Any = None) -> Attempt:
    service = CONTAINER if service == "task_manager" else service
    target = route.replace("{key}", "remove_savepoint:rows:1")
    content = b"" if body is None else _encoded(body)
    return Attempt(who, service, method, target, sign(method, target, content), content)


def _encoded(body: Any) -> bytes:
    return json.dumps(body).encode()


def _body(route: str, incarnations: Mapping[str, str]) -> dict[str, Any]:
    """What a process of the right role would send."""
    known = {"container": CONTAINER, "incarnation": incarnations.get(CONTAINER, "x")}
    if route == "/v1/heartbeats":
        capacity = {"cpu_cores": 1.0, "memory_bytes": 1, "disk_bytes": 1}
        return known | {"url": "http://127.0.0.1:1", "region": "local", "capacity": capacity, "held": {}}
    if route.startswith("/v1/reports"):
        changes = {"number": 2**40, "after": 1, "ended": [["rows", 0]]} if route.endswith("changes") else {}
        return known | {"commit_number": 2**40, "version": 2**40, "tasks": [], **changes}
    if route == "/v1/leases":
        return known | {"former": known["incarnation"]}
    if route.startswith("/v1/shards/"):
        return known | {"shards": {"0": 1}, "version": 1, "leader_epoch": 1, "shard_count": 1}
    return {"leader_epoch": 1}


def _answer(client: httpx.Client, stack: ChaosStack, attempt: Attempt) -> int:
    """The status of the answer. A body that is too long to send is only announced."""
    url = f"{stack.plan.url(attempt.service)}{attempt.target}"
    if "Content-Length" in attempt.headers:
        return _announce(stack.plan.ports[attempt.service], attempt)
    headers = {**attempt.headers, **({"Content-Type": "application/json"} if attempt.body else {})}
    return client.request(attempt.method, url, headers=headers, content=attempt.body).status_code


def _announce(port: int, attempt: Attempt) -> int:
    lines = [f"{attempt.method} {attempt.target} HTTP/1.1", f"Host: {LOOPBACK}"]
    lines += [f"{name}: {value}" for name, value in attempt.headers.items()]
    with socket.create_connection((LOOPBACK, port), timeout=10) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        return int(connection.recv(4096).split()[1])


def _state(stack: ChaosStack) -> dict[str, Any]:
    """What the store has, what the containers run, and in which processes."""
    state: dict[str, Any] = {query: _query(stack, query) for query in STEADY}
    for (table,) in _query(stack, "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"):
        if table not in VOLATILE and not table.startswith("task_metrics"):
            rows = sorted(map(str, _query(stack, f'SELECT t::text FROM "{table}" t')))
            state[table] = hashlib.sha256("\n".join(rows).encode()).hexdigest()
    for name in stack.containers:
        url = f"{stack.plan.url(name)}/v1/tasks"
        answer = httpx.get(url, auth=auth(OBSERVER, stack.plan.identity_dir), trust_env=False).json()
        tasks = sorted((task["job"], task["index"], task["epoch"], task["generation"]) for task in answer["tasks"])
        state[name] = (answer["incarnation"], answer["shards"], tasks, stack.supervisor.pid(name))
    return state


def _state_at_rest(stack: ChaosStack) -> dict[str, Any]:
    """The state once nothing changes any more: all tasks run, and no shard moves."""
    seen: list[dict[str, Any]] = []

    def is_at_rest() -> bool:
        seen.append(_state(stack))
        tasks = [task for name in stack.containers for task in seen[-1][name][2]]
        return len(tasks) == TASKS and len(seen) >= LOOKS and all(each == seen[-1] for each in seen[-LOOKS:])

    wait_until(is_at_rest, 60, "the stack to be at rest", poll_s=0.5)
    return seen[-1]


def _query(stack: ChaosStack, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(libpq_url(stack.plan.database_url)) as connection:
        return connection.execute(query.encode()).fetchall()
