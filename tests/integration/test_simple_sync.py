"""Simple commits and queueing come to what decisions one by one come to: random layers, in two stores, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.store.engine import connect, listen
from services.state_syncer.decide.budget import Budget
from services.state_syncer.store.port import Batch, SyncStore
from tests.support.state_syncer.cell import Cell
from tests.support.store.database import address_of, fresh_database
from tests.support.store.jobs import delete_job, make_config, make_layer, restart_job, write_layer

NAMES = count()
DEAR = max(2, settings.default.max_examples // 10)
"""Examples of a test that makes many rounds of two cells."""
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

RUNNING = """
    SELECT job, config, digests, revision, generation, restarts, stopping, started, rollout FROM running ORDER BY job
    """
STATES = """
    SELECT job, state, detail, revision, change_kind, failures, next_attempt_at,
        plan - 'begun_at' - 'step_at' AS plan
    FROM sync_state ORDER BY job
    """


@contextmanager
def new_cell(server_url: str, template: str, *, one_by_one: bool) -> Iterator[Cell]:
    with fresh_database(server_url, template) as url:
        engine = connect(url)
        cell = Cell(engine, one_by_one=one_by_one)
        # Room for every rescale: how many jobs run when a round looks for room is not the same in both ways.
        cell.budget = Budget(share=1.0, count=10**6)
        cell.syncer = cell.make_syncer(cell.make_store())
        cell.round()  # Notes the ranks: until they are known, every job is merged anew, one by one.
        yield cell
        engine.dispose()


@contextmanager
def both_ways(server_url: str, template: str) -> Iterator[tuple[Cell, Cell]]:
    with (
        new_cell(server_url, template, one_by_one=False) as one,
        new_cell(server_url, template, one_by_one=True) as other,
    ):
        yield one, other


@pytest.fixture(scope="module")
def cells(postgres_url: str, template_database: str) -> Iterator[tuple[Cell, Cell]]:
    """One whose rounds begin with simple commits, and one whose rounds merge and decide one by one."""
    with both_ways(postgres_url, template_database) as cells:
        yield cells


@pytest.fixture(scope="module")
def small_cells(postgres_url: str, template_database: str) -> Iterator[tuple[Cell, Cell]]:
    """The same, for rollouts that must wait."""
    with both_ways(postgres_url, template_database) as cells:
        yield cells


@pytest.fixture
def cell(postgres_url: str, template_database: str) -> Iterator[Cell]:
    with new_cell(postgres_url, template_database, one_by_one=False) as cell:
        yield cell


def forget_all(*cells: Cell) -> None:
    """The jobs of the example before: rounds would look at them again and again."""
    for cell in cells:
        for table in ("running", "sync_state", "jobs"):
            cell.do(f"DELETE FROM {table}")


def act(cell: Cell, job: str, what: str, content: Any) -> None:
    if what == "restart":
        restart_job(cell.engine, job)
    elif what == "delete":
        delete_job(cell.engine, job)
    elif what != "nothing":
        write_layer(cell.engine, job, content, layer=what)


@settings(max_examples=DEAR, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stories=st.lists(STORY, min_size=1, max_size=8))
def test_both_ways_bring_jobs_to_the_same(cells: tuple[Cell, Cell], stories: list[Any]) -> None:
    """1. Jobs are made. 2. Thrice: some layers are written, jobs restarted or deleted, and a round is made."""
    at_once, one_by_one = cells
    forget_all(*cells)
    names = [f"job-{next(NAMES)}" for _ in stories]
    for turn in range(4):
        for cell in cells:
            for job, story in zip(names, stories, strict=True):
                for what, content in story[turn]:
                    act(cell, job, what, content)
        one_by_one.do("DELETE FROM expected_configs")
        for cell in cells:
            cell.round()
        assert at_once.rows(RUNNING) == one_by_one.rows(RUNNING)
        assert at_once.rows(STATES) == one_by_one.rows(STATES)


UPGRADE = CONTENT.map(lambda content: {key: content[key] for key in UPGRADED if key in content})
UPGRADES = st.lists(st.tuples(st.sampled_from(["provisioner", "oncall"]), UPGRADE), max_size=2)
SMALL = st.tuples(st.integers(1, 5), st.sampled_from(["running", "stopped"]))


@settings(max_examples=DEAR, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stories=st.lists(st.tuples(SMALL, UPGRADES, UPGRADES, UPGRADES), min_size=2, max_size=6), room=st.integers(1, 3))
def test_both_ways_begin_the_same_rollouts_in_a_small_budget(
    small_cells: tuple[Cell, Cell], stories: list[Any], room: int
) -> None:
    """1. Jobs of several tasks are made, some stopped. 2. Thrice: some get another package, another query, another
    priority, stop or start. 3. After each: the same have begun and the same wait."""
    at_once, one_by_one = small_cells
    forget_all(*small_cells)
    names = [f"job-{next(NAMES)}" for _ in stories]
    for cell in small_cells:
        for job, ((task_count, desired_state), *_) in zip(names, stories, strict=True):
            write_layer(cell.engine, job, make_layer(task_count=task_count, desired_state=desired_state))
        cell.round()
        under_way = cell.rows("SELECT count(*) AS jobs FROM sync_state WHERE plan IS NOT NULL")[0]["jobs"]
        cell.budget = Budget(share=100.0, count=under_way + room)
        cell.syncer = cell.make_syncer(cell.make_store())
    for turn in range(1, 4):
        for cell in small_cells:
            for job, story in zip(names, stories, strict=True):
                for layer, content in story[turn]:
                    write_layer(cell.engine, job, content, layer=layer)
            cell.round()
        assert at_once.rows(RUNNING) == one_by_one.rows(RUNNING)
        assert at_once.rows(STATES) == one_by_one.rows(STATES)


class NothingElse(SyncStore):
    """Knows simple commits only."""

    def write(self, batch: Batch, leader_epoch: int) -> int | None:
        raise AssertionError(f"decided one by one: {batch}")


@pytest.mark.parametrize("many", [False, True])
def test_simple_changes_and_first_commits_are_made_without_deciding_about_a_job(
    cell: Cell, monkeypatch: pytest.MonkeyPatch, *, many: bool
) -> None:
    """1. Jobs run. 2. Every one gets an argument and one its labels; another job is made. 3. All are committed
    under one number, notified once, by name or, if they are `many`, over all jobs."""
    monkeypatch.setattr("services.state_syncer.round.loop.MOST_NAMED", 1 if many else 1000)
    for number in range(3):
        write_layer(cell.engine, f"j{number}", make_layer())
    cell.round()
    for number in range(3):
        write_layer(cell.engine, f"j{number}", {"args": {"limit": 3}}, layer="provisioner")
    write_layer(cell.engine, "j2", {"labels": {"a.b": "c"}}, layer="oncall")
    write_layer(cell.engine, "new", make_layer(desired_state="stopped"))
    cell.syncer = cell.make_syncer(NothingElse(cell.engine))
    with listen(address_of(cell.engine), ("penstock_running",)) as connection:
        cell.round()
        assert [notice.payload for notice in connection.notifies(timeout=5, stop_after=1)] == ["2"]
    released = make_config(args={"limit": 3})
    assert [row["config"] for row in cell.rows("SELECT config FROM running ORDER BY job")] == [
        released,
        released,
        released | {"labels": {"a.b": "c"}},
        make_config(desired_state="stopped"),
    ]
    assert cell.rows("SELECT DISTINCT commit_number FROM running") == [{"commit_number": 2}]
    states = cell.rows("SELECT state, change_kind, changed_fields FROM sync_state ORDER BY job")
    assert [states[0], states[3]] == [
        {"state": "synced", "change_kind": "restart", "changed_fields": None},
        {"state": "synced", "change_kind": "none", "changed_fields": []},
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


@pytest.mark.parametrize("side", ["expected_configs", "running"])
def test_a_job_without_digests_is_decided_about_in_python(cell: Cell, side: str) -> None:
    """As after an upgrade from a release that stored none. 1. A job gets a live change and one a rescale. 2. The
    change is committed, and the rescale begins."""
    for job in ("j", "k"):
        write_layer(cell.engine, job, make_layer())
    cell.round()
    write_layer(cell.engine, "j", {"priority": 2}, layer="oncall")
    write_layer(cell.engine, "k", {"task_count": 4}, layer="oncall")
    cell.do(f"UPDATE {side} SET digests = '{{}}'")
    cell.round()
    assert (cell.running("j")["config"]["priority"], cell.sync("j")["changed_fields"]) == (2, ["priority"])
    assert cell.sync("k")["state"] == "rescaling"
    assert set(cell.running("j")["digests"]) > {"none", "live", "restart", "rescale", "forbidden"}


def test_a_simple_change_is_committed_though_a_plan_beside_it_breaks_the_round(cell: Cell) -> None:
    """1. One job gets a rollout, another a simple change. 2. The leader dies as it writes the rollout. 3. The simple
    change is committed all the same."""
    for job in ("j", "k"):
        write_layer(cell.engine, job, make_layer())
    cell.round()
    write_layer(cell.engine, "j", {"package": {"version": "2"}}, layer="oncall")
    write_layer(cell.engine, "k", {"priority": 2}, layer="oncall")
    cell.syncer = cell.make_syncer(NothingElse(cell.engine))
    with pytest.raises(AssertionError, match="decided one by one"):
        cell.round()
    assert (cell.sync("j")["state"], cell.running("k")["config"]["priority"]) == ("queued", 2)
