"""`GET /v1/containers`, cordon, drain and uncordon, and the commands for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from penstock.control.errors import Forbidden, InvalidConfig, NotFound
from penstock.store.engine import transaction
from penstock.tasks.ownership import Member
from penstock.wire.containers import ContainerView, PlacementView
from penstock.wire.job_client import JobClient
from services.job_service.cursors import encode
from services.shard_manager.store.members import declare_lost, register
from services.shard_manager.store.owners import Change, ensure_shards, read_owners, record_owners
from tests.support import calls
from tests.support.cli.shell import Shell
from tests.support.control.rounds import rounds_go_on
from tests.support.job_service.service import CONFIG, RunningJobService

GIB = 2.0**30
AT = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
PLACEMENT = {
    "at": AT.isoformat(),
    "load": {"cpu_cores": 3.25, "memory_bytes": 5 * GIB},
    "usable": {"cpu_cores": 7.2, "memory_bytes": 14.4 * GIB},
    "deviation": {"cpu_cores": 0.04, "memory_bytes": -0.12},
}
SHARDS = 4


@pytest.fixture(autouse=True)
def fleet(service: RunningJobService) -> None:
    """`c1` owns four shards; how full it is is known. `c2` owns none; nothing is known of it."""
    with transaction(service.engine) as connection:
        labelled = Member("c1", "1", "http://c1", "eu", 8.0, 2**34, 2**40, True, {"gpus": 2.0}, {"disk": "ssd"})
        for member in (labelled, Member("c2", "1", "http://c2", "us", 2.0, 2**30, 2**30)):
            register(connection, member, empty=True)
        ensure_shards(connection, SHARDS)
        own(connection, "c1")
        write = text("UPDATE containers SET placement = CAST(:placement AS jsonb) WHERE name = 'c1'")
        connection.execute(write, {"placement": json.dumps(PLACEMENT)})
        connection.execute(text(_REPORTED))


def own(connection: Any, container: str | None) -> None:
    owners = read_owners(connection)
    record_owners(connection, {shard: Change(container, owner.epoch) for shard, owner in owners.items()})


_REPORTED = """
    INSERT INTO tasks (job, index, container, state, revision, generation, restarts, epoch)
    SELECT 'etl', n, 'c1', 'running', 1, 1, 0, 1 FROM generate_series(0, 6) AS n
"""


_ELSEWHERE = """
    INSERT INTO running (job, config, revision, generation, restarts, commit_number, leader_epoch, committed_at)
    VALUES ('etl', '{"task_count": 2}', 1, 1, 0, 1, 1, now());
    INSERT INTO reports (container, incarnation, commit_number, version) VALUES ('c1', '1', 1, 1), ('c2', '1', 1, 1);
    INSERT INTO assignment (shard, container, epoch) SELECT shard, 'c2', 2 FROM generate_series(0, 4095) shard
        ON CONFLICT (shard) DO UPDATE SET container = 'c2';
    UPDATE tasks SET state = 'crashed', error = 'no such topic' WHERE index = 0;
    INSERT INTO task_loads (job, index, generation, load) VALUES ('etl', 0, 1, '{"cpu_cores": 0.5}');
    INSERT INTO tasks (job, index, container, state, revision, generation, restarts, epoch) VALUES
        ('etl', 0, 'c2', 'starting', 1, 1, 0, 2), ('abc', 10, 'c1', 'running', 1, 1, 0, 1)
"""
"""Another job there, and the shards go to `c2`, which has started one of their tasks."""


def is_so(container: ContainerView) -> tuple[str, str | None, str | None]:
    return container.availability, container.availability_reason, container.availability_by


def test_the_fleet(client: JobClient) -> None:
    """What is known is there by dimension; what is unknown is null."""
    first, second = client.containers().containers
    assert (first.shards, first.tasks, second.shards, second.tasks) == (SHARDS, 7, 0, 0)
    assert first.capacity == {"cpu_cores": 8.0, "memory_bytes": 2.0**34, "disk_bytes": 2.0**40, "gpus": 2.0}
    assert (first.region, first.labels, first.state, first.availability) == ("eu", {"disk": "ssd"}, "live", "open")
    assert first.placement == PlacementView(**{**PLACEMENT, "at": AT})
    assert second.placement is None
    assert client.container("c1").placement == first.placement
    assert [each.name for each in client.all_containers()] == ["c1", "c2"]


@pytest.mark.parametrize("written", ['{"load": {}}', "3", '{"at": "never"}'])
def test_a_placement_of_another_version_is_unknown(service: RunningJobService, client: JobClient, written: str) -> None:
    with transaction(service.engine) as connection:
        connection.execute(text("UPDATE containers SET placement = CAST(:it AS jsonb)"), {"it": written})
    assert [each.placement for each in client.containers().containers] == [None, None]


def test_the_lease_is_as_old_as_the_last_word_of_the_container(service: RunningJobService, client: JobClient) -> None:
    """1. The age of the heartbeat; 2. of the renewal by itself when that is later; 3. never below zero."""
    with transaction(service.engine) as connection:
        connection.execute(text("UPDATE containers SET heartbeat_at = now() - interval '1 hour'"))
        connection.execute(text("UPDATE containers SET lease_renewed_at = now() - interval '1000 s' WHERE name = 'c2'"))
    first, second = (each.lease_age_seconds for each in client.containers().containers)
    assert 3600 <= first < 4600
    assert 1000 <= second < 2000
    with transaction(service.engine) as connection:
        connection.execute(text("UPDATE containers SET heartbeat_at = now() + interval '1 hour'"))
    assert client.container("c1").lease_age_seconds == 0.0


def test_pages(client: JobClient) -> None:
    page = client.containers(limit=1)
    assert [each.name for each in page.containers] == ["c1"]
    assert [each.name for each in client.containers(cursor=page.next, limit=1).containers] == ["c2"]


def test_the_tasks_of_a_container(service: RunningJobService, client: JobClient) -> None:
    """1. Those that it reports, of all jobs, by job and index, in pages. 2. Each has the error and the place that the
    tasks of its job have, and its load. 3. A job that does not ask for it any more does not expect it."""
    client.put_job("etl", {**CONFIG, "task_count": 2})
    with transaction(service.engine) as connection:
        connection.execute(text(_ELSEWHERE))
    first = client.container_tasks("c1", limit=7)
    rest = client.container_tasks("c1", cursor=first.next, limit=7)
    assert [task.task for task in first.tasks] == ["abc/10", *(f"etl/{number}" for number in range(6))]
    assert ([task.task for task in rest.tasks], rest.next) == (["etl/6"], None)
    assert first.tasks[0].job == "abc"
    failed = first.tasks[1]
    assert (failed.job, failed.state, failed.error, failed.expected) == ("etl", "crashed", "no such topic", True)
    assert (failed.owner, failed.load) == ("c2", {"cpu_cores": 0.5})
    assert [task.expected for task in first.tasks] == [False, True, True, False, False, False, False]
    of_job = {task.task: task for task in client.tasks("etl").tasks if task.container == "c1"}
    for task in (*first.tasks[1:], *rest.tasks):
        assert of_job[task.task].model_dump() == task.model_dump(exclude={"job"})
    assert client.container_tasks("c2").tasks[0].task == "etl/0"


def test_the_tasks_of_a_container_are_read_by_each_role_and_with_its_own_cursor(
    service: RunningJobService, client: JobClient
) -> None:
    with service.client(client.create_token("other", "reader")) as reader:
        assert len(reader.container_tasks("c1").tasks) == 7
    assert calls.get(f"{service.url}/v1/containers/c1/tasks").status_code == 401
    with pytest.raises(NotFound, match="no container c9"):
        client.container_tasks("c9")
    for cursor in ("x", encode("etl"), encode("etl/-1"), encode(3)):
        with pytest.raises(InvalidConfig) as refused:
            client.container_tasks("c1", cursor=cursor)
        assert (refused.value.field, refused.value.rule) == ("cursor", "cursor")


def test_the_command_shows_the_tasks_of_a_container(service: RunningJobService, client: JobClient, shell: Shell):
    """1. Each with its state and where it goes. 2. The first line of an error once, with the tasks that have it."""
    client.put_job("etl", {**CONFIG, "task_count": 2})
    with transaction(service.engine) as connection:
        connection.execute(text(_ELSEWHERE))
        connection.execute(text("UPDATE tasks SET error = E'no such topic\n  at line 7', state = 'crashed'"))
    said = shell("containers", "c1").ok()
    assert "crashed, moves to c2" in said
    assert "crashed, not expected" in said
    assert "abc/10, etl/0, etl/1, etl/2, etl/3 and 3 more: no such topic\n" in said
    assert "at line 7" not in said
    told = json.loads(shell("containers", "c1", "--json").ok())["reported_tasks"]
    assert [task["task"] for task in told] == ["abc/10", *(f"etl/{number}" for number in range(7))]
    assert shell("containers", "c2").ok().count("etl/0") == 2


def test_cordon_drain_and_uncordon(client: JobClient) -> None:
    """1. Each says who and why. 2. A drain has a limit, ten minutes from now unless another is given, or none. 3. Said
    again nothing changes but the limit, which counts anew. 4. A cordon or uncordon ends it."""
    assert is_so(client.cordon("c1", reason="noise")) == ("cordoned", "noise", "admin")
    before = datetime.now(UTC)
    drained = client.drain("c1", reason="new disk")
    assert is_so(drained) == is_so(client.container("c1")) == ("draining", "new disk", "admin")
    limit = drained.drain_until
    assert limit is not None
    assert before + timedelta(seconds=600) <= limit <= datetime.now(UTC) + timedelta(seconds=600)
    again = client.drain("c1", reason="new disk", limit_seconds=5000)
    assert again.drain_until is not None
    assert again.drain_until - limit >= timedelta(seconds=4400)
    assert again.availability_at == drained.availability_at
    assert client.drain("c1", limit_seconds=None).drain_until is None
    client.drain("c1", limit_seconds=0)
    cordoned = client.cordon("c1")
    assert (cordoned.availability, cordoned.drain_until) == ("cordoned", None)
    assert is_so(client.uncordon("c1", reason="done")) == ("open", "done", "admin")
    assert client.container("c2").availability_at is None


def test_the_last_open_container_and_a_lost_one_can_be_drained(service: RunningJobService, client: JobClient) -> None:
    with transaction(service.engine) as connection:
        assert declare_lost(connection, {"c2": "1"}, 60.0) == {"c2"}
    assert {client.drain(name).availability for name in ("c1", "c2")} == {"draining"}


def test_a_repeated_key_drains_once(client: JobClient) -> None:
    first = client.drain("c1", idempotency_key="k")
    client.uncordon("c1")
    assert client.drain("c1", idempotency_key="k") == first
    assert client.container("c1").availability == "open"
    with pytest.raises(InvalidConfig) as refused:
        client.cordon("c1", idempotency_key="k")
    assert refused.value.rule == "idempotency_key"


@pytest.mark.parametrize("role", ["reader", "scaler", "provisioner", "oncall"])
def test_who_may(service: RunningJobService, client: JobClient, role: Any) -> None:
    other = service.client(client.create_token("other", role))
    if role == "oncall":
        assert other.drain("c1").availability_by == "other"
        return
    for call in (other.cordon, other.drain, other.uncordon):
        with pytest.raises(Forbidden):
            call("c1")
    assert other.container("c1").availability == "open"


def test_an_unknown_container_is_not_found(client: JobClient) -> None:
    for call in (client.container, client.cordon, client.drain, client.uncordon):
        with pytest.raises(NotFound, match="no container c9"):
            call("c9")


@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [
        ("drain", {"limit_seconds": -1}, "limit_seconds"),
        ("drain", {"limit_seconds": 10**9}, "limit_seconds"),
        ("drain", {"limit_seconds": "soon"}, "limit_seconds"),
        ("drain", {"limit": 5}, "limit"),
        ("cordon", {"limit_seconds": 5}, "limit_seconds"),
        ("uncordon", {"reason": 5}, "reason"),
    ],
)
def test_what_is_refused(service: RunningJobService, client: JobClient, verb: str, body: Mapping[str, Any], field: str):
    headers = {"Authorization": f"Bearer {service.admin}"}
    answer = calls.post(f"{service.url}/v1/containers/c1/{verb}", json=body, headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert answer.json()["field"] == f"body.{field}"
    assert client.container("c1").availability == "open"


def test_the_commands(shell: Shell, client: JobClient) -> None:
    said = shell("containers").ok()
    for part in ("3.2", "(+4%)", "5.0 GiB", "(-12%)", "unknown", "disk=ssd", "gpus"):
        assert part in said, (part, said)
    assert shell("cordon", "c1", "-r", "noise").ok() == "c1 is cordoned: 4 shards, 7 tasks\n"
    assert "c1 is draining: 4 shards, 7 tasks, the remaining shards move in 9m" in shell("drain", "c1").ok()
    assert "in 1h59m" in shell("drain", "c1", "--limit", "2h", "-r", "new disk").ok()
    shown = shell("containers", "c1").ok()
    assert {"draining", "ssd", "+4%"} <= {part.strip(' "{}:') for part in shown.replace('"', " ").split()}
    assert "new disk" in shown
    assert shell("drain", "c1", "--limit", "never").ok() == "c1 is draining: 4 shards, 7 tasks\n"
    assert "duration" in shell("drain", "c1", "--limit", "soon").refusal()
    assert "no container c9" in shell("drain", "c9").refusal()
    assert shell("uncordon", "c1").ok().startswith("c1 is open")
    assert json.loads(shell("containers", "--json").ok())["containers"][0]["name"] == "c1"
    assert json.loads(shell("containers", "c2", "--json").ok())["placement"] is None


def test_drain_waits_and_shows_what_is_left(shell: Shell, service: RunningJobService) -> None:
    """A shard leaves at a time, then the reports of tasks."""

    def one_leaves() -> None:
        with transaction(service.engine) as connection:
            owned = {shard: owner for shard, owner in read_owners(connection).items() if owner.container == "c1"}
            for shard, owner in sorted(owned.items())[:1]:
                record_owners(connection, {shard: Change("c2", owner.epoch)})
            connection.execute(text("DELETE FROM tasks WHERE index = (SELECT max(index) FROM tasks)"))

    with rounds_go_on(one_leaves):
        said = shell("drain", "c1", "--wait").ok().splitlines()
    assert said[-1] == "c1 is empty"
    assert said[-2] == "0 shards and 0 tasks remain"


def test_drain_that_somebody_ends_is_told(shell: Shell, service: RunningJobService) -> None:
    def end() -> None:
        with service.client() as other:
            if other.container("c1").availability == "draining":
                other.uncordon("c1")

    with rounds_go_on(end):
        assert "was ended: it is open" in shell("drain", "c1", "--wait").refusal()
