"""The set-based way commits exactly what the ordinary way would have: random layers, in two stores, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.config.basis import merge_basis
from penstock.config.model import ChangeKind
from penstock.config.sameness import SimpleChange, simple_change
from penstock.store import simple_rollouts, simple_sync
from penstock.store.cluster import write_sharding
from penstock.store.engine import connect, listen, transaction
from penstock.store.layers import all_layers
from penstock.store.simple_sync import Judged
from penstock.tasks.shards import Sharding
from services.state_syncer.budget import Budget
from services.state_syncer.simple import SET_BASED_FROM
from services.state_syncer.store import Batch, PostgresSyncStore
from tests.support.database import fresh_database
from tests.support.jobs import delete_job, make_config, make_layer, restart_job, write_layer
from tests.support.syncer_cell import Cell, elect

NAMES = count()
VALUES: dict[str, list[Any]] = {
    "package": [{"version": "1"}, {"version": "2"}, {"name": "flights", "digest": f"sha256:{'a' * 64}"}],
    "query": [{"sql": "SELECT key FROM events"}, {"sql": "SELECT 'x'", "python": "a:b"}],
    "args": [{}, {"n": 1}, {"n": 1.0}, {"n": True}, {"n": "1"}, {"n": 1, "m": False}, {"m": 0}],
    "labels": [{"team": "a"}, {"team": "b", "a.b": "c"}, {"tier": "gold"}],
    "spark_settings": [{}, {"spark.sql.ansi.enabled": "true"}, {"spark.sql.ansi.enabled": "false"}],
    "inputs": [
        {"events": {"starting_position": "latest"}},
        {"events": {"format": "json", "value_schema": "a STRING"}},
        {"events": {"topic": "other"}},
        {"more": {"topic": "more", "key_groups": 8, "format": "raw"}},
    ],
    "tables": [{}, {"planes": {"path": "file:/planes"}}, {"planes": {"path": "file:/others", "format": "csv"}}],
    "output": [{"topic": "elsewhere"}, {"delivery": "at_least_once"}, {"type": "delta", "path": "file:/out"}],
    "output_mode": ["append", "update"],
    "task_count": [1, 2, 4, 99],
    "threads_per_task": [1, 2],
    "resources": [{"cpu_cores": 1}, {"cpu_cores": 1.0}, {"memory_bytes": 2**30}, {"disk_bytes": 0}],
    "trigger_interval_seconds": [1, 1.0, 5, 2.5],
    "max_records_per_trigger": [10, 20],
    "isolation": ["shared", "process"],
    "slo": [{"max_lag_seconds": 10}],
    "priority": [-3, 0, 3],
    "region": ["north", "south"],
    "container_labels": [{"disk": "ssd"}, {"disk": "hdd", "gpu": "yes"}],
    "desired_state": ["running", "stopped"],
    "owner": ["ann", ""],
}
CONTENT = st.dictionaries(st.sampled_from(list(VALUES)), st.integers(0, 9), max_size=3).map(
    lambda chosen: {field: VALUES[field][index % len(VALUES[field])] for field, index in chosen.items()}
)
UPGRADED = ("package", "query", "priority", "labels", "desired_state")
BASE = CONTENT.map(lambda content: make_layer(**content))
WRITE = st.one_of(
    st.tuples(st.just("base"), BASE),
    st.tuples(st.sampled_from(["provisioner", "scaler", "oncall"]), CONTENT | st.none()),
    st.sampled_from([("restart", None), ("delete", None), ("nothing", None)]),
)
# What happens to a job between one round and the next; at first it is made.
STORY = st.tuples(st.tuples(st.just("base"), BASE).map(lambda made: [made]), *[st.lists(WRITE, max_size=2)] * 3)

RUNNING = "SELECT job, config, revision, generation, restarts, stopping, started, rollout FROM running ORDER BY job"
STATES = (
    "SELECT job, state, detail, revision, change_kind, changed_fields, failures, next_attempt_at, plan"
    " FROM sync_state ORDER BY job"
)


@contextmanager
def new_cell(server_url: str, template: str, set_based_from: int) -> Iterator[Cell]:
    with fresh_database(server_url, template) as url:
        engine = connect(url)
        cell = Cell(engine, elect(engine, "first"), set_based_from=set_based_from)
        # Room for every rescale: how many jobs run when a round looks for room is not the same in both ways.
        cell.budget = Budget(share=1.0, count=10**6)
        cell.syncer = cell.make_syncer(PostgresSyncStore(engine))
        cell.round()  # Notes the ranks: until they are known, every job is merged anew, one by one.
        yield cell
        engine.dispose()


@contextmanager
def both_ways(server_url: str, template: str) -> Iterator[tuple[Cell, Cell]]:
    with ExitStack() as open_cells:
        one, other = (open_cells.enter_context(new_cell(server_url, template, way)) for way in (0, SET_BASED_FROM))
        yield one, other


@pytest.fixture(scope="module")
def cells(postgres_url: str, template_database: str) -> Iterator[tuple[Cell, Cell]]:
    """One whose rounds begin with the set-based way, and one whose rounds merge and decide one by one."""
    with both_ways(postgres_url, template_database) as cells:
        yield cells


@pytest.fixture(scope="module")
def small_cells(postgres_url: str, template_database: str) -> Iterator[tuple[Cell, Cell]]:
    """The same, for rollouts that must wait."""
    with both_ways(postgres_url, template_database) as cells:
        yield cells


@pytest.fixture
def cell(postgres_url: str, template_database: str) -> Iterator[Cell]:
    with new_cell(postgres_url, template_database, 0) as cell:
        yield cell


def act(cell: Cell, job: str, what: str, content: Any) -> None:
    if what == "restart":
        restart_job(cell.engine, job)
    elif what == "delete":
        delete_job(cell.engine, job)
    elif what != "nothing":
        write_layer(cell.engine, job, content, layer=what)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stories=st.lists(STORY, min_size=1, max_size=8))
def test_both_ways_bring_jobs_to_the_same(cells: tuple[Cell, Cell], stories: list[Any]) -> None:
    """1. Jobs are made. 2. Thrice: some layers are written, jobs restarted or deleted, and a round is made."""
    set_based, ordinary = cells
    names = [f"job-{next(NAMES)}" for _ in stories]
    for turn in range(4):
        for cell in cells:
            for job, story in zip(names, stories, strict=True):
                for what, content in story[turn]:
                    act(cell, job, what, content)
        ordinary.do("DELETE FROM expected_configs")
        for cell in cells:
            cell.round()
        assert set_based.rows(RUNNING) == ordinary.rows(RUNNING)
        assert set_based.rows(STATES) == ordinary.rows(STATES)


UPGRADE = CONTENT.map(lambda content: {key: content[key] for key in UPGRADED if key in content})
UPGRADES = st.lists(st.tuples(st.sampled_from(["provisioner", "oncall"]), UPGRADE), max_size=2)
SMALL = st.tuples(st.integers(1, 5), st.sampled_from(["running", "stopped"]))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stories=st.lists(st.tuples(SMALL, UPGRADES, UPGRADES, UPGRADES), min_size=2, max_size=6), room=st.integers(1, 3))
def test_both_ways_begin_the_same_rollouts_in_a_small_budget(
    small_cells: tuple[Cell, Cell], stories: list[Any], room: int
) -> None:
    """1. Jobs of several tasks are made, some stopped. 2. Thrice: some get another package, another query, another
    priority, stop or start. 3. After each: the same have begun and the same wait."""
    set_based, ordinary = small_cells
    names = [f"job-{next(NAMES)}" for _ in stories]
    for cell in small_cells:
        for job, ((task_count, desired_state), *_) in zip(names, stories, strict=True):
            write_layer(cell.engine, job, make_layer(task_count=task_count, desired_state=desired_state))
        cell.round()
        under_way = cell.rows("SELECT count(*) AS jobs FROM sync_state WHERE plan IS NOT NULL")[0]["jobs"]
        cell.budget = Budget(share=100.0, count=under_way + room)
        cell.syncer = cell.make_syncer(PostgresSyncStore(cell.engine))
    for turn in range(1, 4):
        for cell in small_cells:
            for job, story in zip(names, stories, strict=True):
                for layer, content in story[turn]:
                    write_layer(cell.engine, job, content, layer=layer)
            cell.round()
        assert set_based.rows(RUNNING) == ordinary.rows(RUNNING)
        assert set_based.rows(STATES) == ordinary.rows(STATES)


class SettlingOnly(PostgresSyncStore):
    """Knows the set-based way only."""

    def write(self, batch: Batch, leader_epoch: int) -> int | None:
        raise AssertionError(f"decided one by one: {batch}")


def test_another_query_and_first_commits_are_settled_without_deciding_about_a_job(cell: Cell) -> None:
    """1. Jobs run. 2. Every one gets another query and one its labels; another job is made. 3. All are committed
    under one number, notified once, by the set-based way alone."""
    for number in range(3):
        write_layer(cell.engine, f"j{number}", make_layer())
    cell.round()
    for number in range(3):
        write_layer(cell.engine, f"j{number}", {"query": {"sql": "SELECT key FROM events"}}, layer="provisioner")
    write_layer(cell.engine, "j2", {"labels": {"a.b": "c"}}, layer="oncall")
    write_layer(cell.engine, "new", make_layer(desired_state="stopped"))
    cell.syncer = cell.make_syncer(SettlingOnly(cell.engine))
    with listen(
        str(cell.engine.url.render_as_string(hide_password=False)).replace("+psycopg", ""), ("penstock_running",)
    ) as connection:
        cell.round()
        assert [notice.payload for notice in connection.notifies(timeout=5, stop_after=1)] == ["2"]
    released = make_config(query={"sql": "SELECT key FROM events"})
    assert [row["config"] for row in cell.rows("SELECT config FROM running ORDER BY job")] == [
        released,
        released,
        released | {"labels": {"a.b": "c"}},
        make_config(desired_state="stopped"),
    ]
    assert cell.rows("SELECT DISTINCT commit_number FROM running") == [{"commit_number": 2}]
    assert [row["changed_fields"] for row in cell.rows("SELECT changed_fields FROM sync_state ORDER BY job")] == [
        ["query.sql"],
        ["query.sql"],
        ["labels.a.b", "query.sql"],
        [],
    ]
    assert [cell.running(job)["started"] for job in ("j0", "new")] == [True, False]


@pytest.mark.parametrize(
    "spoil",
    [
        "UPDATE expected_configs SET basis = 'other'",
        "UPDATE expected_configs SET revision = revision - 1",
        "UPDATE layers SET rank = 400 WHERE name = 'base'",
    ],
    ids=["other basis", "older", "other ranks"],
)
def test_a_stored_merge_that_is_not_of_the_present_layers_is_not_used(cell: Cell, spoil: str) -> None:
    """1. A job runs; a layer is written; what was stored with it is made wrong and to be of other layers. 2. The round
    commits what the layers ask for."""
    write_layer(cell.engine, "j", make_layer(priority=1))
    cell.round()
    write_layer(cell.engine, "j", {"priority": 2}, layer="oncall")
    cell.do("UPDATE expected_configs SET config = jsonb_set(config, '{priority}', '99')")
    cell.do(spoil)
    cell.round()
    assert cell.running()["config"]["priority"] == (1 if "rank" in spoil else 2)


def test_a_write_during_the_comparison_is_left_to_the_next_round(cell: Cell) -> None:
    """1. A job is compared. 2. It is written to. 3. Neither configuration is committed on that comparison; the round
    after commits the newer."""
    write_layer(cell.engine, "j", make_layer())
    cell.round()
    write_layer(cell.engine, "j", {"priority": 2}, layer="oncall")
    with transaction(cell.engine) as connection:
        simple_sync.compare(connection, merge_basis(all_layers(connection)))
        changes = {answer: simple_change(answer.sameness) for answer in simple_sync.read_answers(connection)}
        judged = {answer: Judged(change) for answer, change in changes.items() if change is not None}
        write_layer(cell.engine, "j", {"priority": 3, "task_count": 1}, layer="oncall")
        assert list(changes.values()) == [SimpleChange(ChangeKind.LIVE, ("priority",))]
        assert simple_sync.commit_changed(connection, judged, commit_number=9, leader_epoch=1, sample=5) == []
    assert cell.running()["config"] == make_config()
    write_layer(cell.engine, "j", {"priority": 3}, layer="oncall")
    cell.round()
    assert cell.running()["config"] == make_config(priority=3)


def look(cell: Cell, now: str, well_before: datetime) -> tuple[int, Any]:
    """How many rollouts are settled, and the record of the one that goes on."""
    with transaction(cell.engine) as connection:
        basis = merge_basis(all_layers(connection))
        settled = simple_rollouts.settle(connection, basis, well_before=well_before)
        simple_rollouts.note(connection, now)
    return settled, cell.sync()["plan"]


def test_what_is_seen_of_many_rollouts_is_noted(cell: Cell) -> None:
    """Of a job that asks for labels. 1. A rollout begins while the task has crashed twice: so many do not count. 2. It
    runs the new package: noted since when. 3. It does so later too: the same. 4. It stops: no longer. 5. It ran for
    long enough: settled."""
    write_layer(cell.engine, "j", make_layer(task_count=1, container_labels={"disk": "ssd"}))
    cell.round()
    write_layer(cell.engine, "j", {"package": {"version": "2"}}, layer="provisioner")
    cell.round()
    cell.container("a")
    sharding = Sharding(1024, ("r", "disk=ssd"))
    with transaction(cell.engine) as connection:
        write_sharding(connection, sharding, 1)
    shard = sharding.shard_of("j/0", "disk=ssd")
    cell.do("INSERT INTO assignment (shard, container, epoch) VALUES (:shard, 'a', 1)", shard=shard)
    cell.report("a", 1, "j")
    cell.do("UPDATE tasks SET crashes = 2, revision = :old", old=cell.running()["revision"] - 1)
    first, later = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    seen = look(cell, first.isoformat(), first)
    assert (seen[0], seen[1]["crashes"], seen[1]["well_since"]) == (0, {"0": 2}, None)
    cell.do("UPDATE tasks SET revision = :new", new=cell.running()["revision"])
    before = first - timedelta(seconds=1)
    assert look(cell, first.isoformat(), before)[1]["well_since"] == first.isoformat()
    assert look(cell, later.isoformat(), before)[1]["well_since"] == first.isoformat()
    cell.do("UPDATE tasks SET state = 'starting'")
    assert look(cell, later.isoformat(), later)[1]["well_since"] is None
    cell.do("UPDATE tasks SET state = 'running'")
    assert look(cell, first.isoformat(), later)[0] == 0
    assert look(cell, later.isoformat(), first) == (1, None)
    assert cell.sync()["state"] == "synced"
