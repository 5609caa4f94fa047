"""`/v1/jobs/{job}/tasks/{index}/move` and `penstock move`."""

from __future__ import annotations

import pytest

from penstock.control.errors import Conflict, Forbidden, InvalidConfig, NotFound
from penstock.store.avoided import read_avoided
from penstock.store.cluster import SELECTORS, write_fact
from penstock.store.engine import transaction
from penstock.store.json import as_json
from penstock.store.leases import SHARD_MANAGER
from penstock.tasks.ownership import Avoidance
from penstock.wire.job_client import JobClient
from services.job_service.routes.task_moves import MOST_AVOIDED
from tests.support.cli.shell import Shell
from tests.support.job_service.service import CONFIG, RunningJobService
from tests.support.state_syncer.cell import Cell, depose, elect


def avoided(cell: Cell) -> list[Avoidance]:
    with cell.engine.connect() as connection:
        return read_avoided(connection)


def run_on_a(client: JobClient, cell: Cell, **asked: object) -> None:
    """A job of two tasks, all shards of which the container `a` owns; `b` is open, too, and a Shard Manager leads."""
    elect(cell.engine, "leader", loop=SHARD_MANAGER)
    offers(cell, memory_bytes=2e9)
    client.put_job("etl", {**CONFIG, "task_count": 2, **asked})
    cell.rounds(1)
    cell.do(
        "INSERT INTO assignment (shard, container, epoch) SELECT shard, 'a', 1 FROM generate_series(0, 4095) shard"
        " ON CONFLICT (shard) DO UPDATE SET container = 'a'"
    )


def offers(cell: Cell, *, memory_bytes: float) -> None:
    """What the newest placement told of the containers."""
    figures = {"at": "2026-01-01T00:00:00Z", "load": {}, "usable": {"memory_bytes": memory_bytes}, "deviation": {}}
    cell.do("UPDATE containers SET placement = CAST(:placement AS jsonb)", placement=as_json(figures))


def test_a_slow_task_leaves_its_container_for_a_while(
    service: RunningJobService, client: JobClient, cell: Cell
) -> None:
    """1. The scaler's token asks, as it saw the task. 2. Asked again by people it is the same. 3. It is in the history
    of the cell, and no layer has changed."""
    run_on_a(client, cell)
    scaler = service.client(client.create_token("scaler", "scaler"))
    done = scaler.move_task("etl", 1, container="a", reason="decision 7")
    assert (done.job, done.index, done.container, done.for_seconds) == ("etl", 1, "a", 3600)
    client.move_task("etl", 1, for_seconds=60)
    assert avoided(cell) == [Avoidance("etl", 1, "a")]
    moved = [entry for entry in client.cell_history(subject="etl/1").entries if entry.action == "task_moved"]
    assert [(entry.author, entry.reason) for entry in moved] == [("admin", ""), ("scaler", "decision 7")]
    assert client.get_layer("etl", "scaler").version == 0


def test_what_is_over_is_forgotten(client: JobClient, cell: Cell) -> None:
    run_on_a(client, cell)
    client.move_task("etl", 0)
    cell.do("UPDATE avoided SET until = now()")
    assert avoided(cell) == []
    client.move_task("etl", 1)
    assert cell.rows("SELECT index FROM avoided") == [{"index": 1}]


def test_a_move_is_ended_and_goes_with_its_container_and_its_job(client: JobClient, cell: Cell, shell: Shell) -> None:
    """1. Of one container, and of all. 2. A forgotten container is avoided no more. 3. Nor is one by a job that is
    gone: the next one of its name starts anew."""
    run_on_a(client, cell)
    client.move_task("etl", 0)
    client.move_task("etl", 1)
    client.move_task("etl", 1, for_seconds=0, container="b")
    assert [(task.task, task.avoids) for task in client.tasks("etl").tasks] == [("etl/0", ("a",)), ("etl/1", ("a",))]
    assert "etl/1 stays away from a for a while" in shell("tasks", "etl").ok()
    assert avoided(cell) == [Avoidance("etl", 0, "a"), Avoidance("etl", 1, "a")]
    with pytest.raises(InvalidConfig, match="at least 60"):
        client.move_task("etl", 1, for_seconds=59)
    assert "etl/1 is on a, and stays away from no container" in shell("move", "etl", "1", "--for", "0").ok()
    assert avoided(cell) == [Avoidance("etl", 0, "a")]
    client.move_task("etl", 1)
    cell.do("UPDATE avoided SET container = 'b' WHERE index = 1")
    cell.do("UPDATE containers SET state = 'lost' WHERE name = 'b'")
    client.forget_container("b")
    assert avoided(cell) == [Avoidance("etl", 0, "a")]
    client.delete_job("etl")
    cell.rounds(3)
    assert cell.rows("SELECT name FROM jobs") == []
    assert cell.rows("SELECT job FROM avoided") == []


def test_what_is_refused(service: RunningJobService, client: JobClient, cell: Cell) -> None:
    run_on_a(client, cell)
    client.cordon("b")
    with pytest.raises(Conflict) as alone:
        client.move_task("etl", 0)
    assert (alone.value.field, alone.value.rule) == ("container", "elsewhere")
    assert alone.value.detail.endswith("where etl/0 is: b (cordoned)")
    client.uncordon("b")
    with pytest.raises(Conflict, match="etl/0 is on a by now") as moved:
        client.move_task("etl", 0, container="b")
    assert moved.value.rule == "owner"
    with pytest.raises(NotFound, match="etl has no task 2"):
        client.move_task("etl", 2)
    with pytest.raises(NotFound):
        client.move_task("other", 0)
    with pytest.raises(Forbidden):
        service.client(client.create_token("reader", "reader")).move_task("etl", 0)
    cell.do("UPDATE assignment SET container = NULL")
    with pytest.raises(Conflict, match="no container runs etl/0"):
        client.move_task("etl", 0)
    assert avoided(cell) == []


@pytest.mark.parametrize(
    ("asked", "change", "why"),
    [
        ({"resources": {"memory_bytes": 10**9}}, "", ""),
        ({"resources": {"memory_bytes": 3 * 10**9}}, "", "b (too small in memory_bytes)"),
        ({"region": "r"}, "region = 'west'", "b (not in region r)"),
        ({"container_labels": {"disk": "ssd"}}, "labels = '{}'", "b (without disk=ssd)"),
        ({}, "availability = 'draining'", "b (draining)"),
        ({}, "state = 'lost'", "no other one is live"),
    ],
    ids=["fits", "too small", "region", "labels", "drains", "lost"],
)
def test_a_move_that_no_container_may_take_is_refused(
    client: JobClient, cell: Cell, asked: dict[str, object], change: str, why: str
) -> None:
    run_on_a(client, cell, **asked)
    with transaction(cell.engine) as connection:
        write_fact(connection, SELECTORS, ["r", "disk=ssd"])
    cell.do(f"UPDATE containers SET {change or 'state = state'} WHERE name = 'b'")
    if not why:
        assert client.move_task("etl", 0).unknown is None
        return
    with pytest.raises(Conflict) as refused:
        client.move_task("etl", 0)
    assert (refused.value.field, refused.value.rule) == ("container", "elsewhere")
    assert refused.value.detail.endswith(why)
    assert avoided(cell) == []


def test_what_is_not_known_refuses_no_move(client: JobClient, cell: Cell, shell: Shell) -> None:
    """1. No placement has told of `b`. 2. No Shard Manager says that it is lost."""
    run_on_a(client, cell, resources={"memory_bytes": 3 * 10**9})
    cell.do("UPDATE containers SET placement = NULL")
    assert client.move_task("etl", 0).unknown == "no placement has told yet what b has room for"
    depose(cell.engine)
    cell.do("UPDATE containers SET state = 'lost' WHERE name = 'b'")
    assert "unknown: no Shard Manager leads" in shell("move", "etl", "1").ok()
    assert avoided(cell) == [Avoidance("etl", 0, "a"), Avoidance("etl", 1, "a")]


def test_a_scaler_moves_one_task_of_a_job_in_ten_minutes(
    service: RunningJobService, client: JobClient, cell: Cell
) -> None:
    """1. The second move is refused, of another task, too. 2. A call that is sent again gets its answer. 3. People may.
    4. A move of another job is none of this one."""
    run_on_a(client, cell)
    client.put_job("other", {**CONFIG, "task_count": 1})
    cell.rounds(1)
    scaler = service.client(client.create_token("scaler", "scaler"))
    scaler.move_task("other", 0)
    scaler.move_task("etl", 0, idempotency_key="once")
    for index in (0, 1):
        with pytest.raises(Conflict) as again:
            scaler.move_task("etl", index)
        assert (again.value.field, again.value.rule) == ("job", "one_move")
    assert scaler.move_task("etl", 0, idempotency_key="once").index == 0
    assert Avoidance("etl", 1, "a") not in avoided(cell)
    client.move_task("etl", 1)
    assert Avoidance("etl", 1, "a") in avoided(cell)


def test_a_scaler_moves_none_while_many_tasks_stay_away(
    service: RunningJobService, client: JobClient, cell: Cell
) -> None:
    """Those that are over do not count."""
    run_on_a(client, cell)
    scaler = service.client(client.create_token("scaler", "scaler"))
    cell.do(
        "INSERT INTO avoided (job, index, container, until, author)"
        f" SELECT 'many', n, 'a', now() + interval '1 hour', 'scaler' FROM generate_series(1, {MOST_AVOIDED}) n"
    )
    with pytest.raises(Conflict) as many:
        scaler.move_task("etl", 0)
    assert (many.value.field, many.value.rule) == ("job", "most_moves")
    cell.do("UPDATE avoided SET until = now() WHERE index = 1")
    scaler.move_task("etl", 0)
    assert len(avoided(cell)) == MOST_AVOIDED


def test_the_command_says_where_the_task_was(client: JobClient, cell: Cell, shell: Shell) -> None:
    run_on_a(client, cell)
    assert "etl/0 leaves a, and stays away from it for 2h" in shell("move", "etl", "0", "--for", "2h").ok()
    assert avoided(cell) == [Avoidance("etl", 0, "a")]
