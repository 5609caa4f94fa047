"""What rounds and writes read of a large cell, by the plans of Postgres: rows, not time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import Engine, TextClause, text

from penstock.control.clock import SystemClock
from penstock.model.jobs import Action
from penstock.store.engine import transaction
from penstock.store.running import RUNNING_COMMIT
from penstock.wire.jobs import Written
from services.job_service.store import flows
from services.job_service.writer import Asked, write_many, write_shared
from services.job_service.writes import Precondition, Write
from services.shard_manager.store.jobs import CHANGES, RunningJobs
from services.state_syncer.savepoints.store import EXPIRE, PAGE, SavepointStore
from tests.support.job_service.service import CONFIG
from tests.support.state_syncer.cell import elect
from tests.support.store.running import commit_job, forget_job

JOBS = 100_000
_FILL = f"""
    SET LOCAL session_replication_role = 'replica';
    INSERT INTO running (job, config, revision, generation, restarts, stopping, started, commit_number, leader_epoch)
        SELECT 'j' || lpad(n::text, 6, '0'), '{{"task_count": 1, "region": "east"}}', 1, 1, 0, false, true, n, 1
        FROM generate_series(1, {JOBS}) n;
    UPDATE counters SET value = {JOBS} WHERE name = 'running_commit';
    INSERT INTO savepoints (job, name, state, author)
        SELECT 'j' || lpad((1 + mod(n, {JOBS}))::text, 6, '0'), 's' || n, 'ready', 'ann'
        FROM generate_series(0, {JOBS - 1}) n;
"""


@pytest.fixture
def large(engine: Engine) -> Engine:
    with engine.begin() as connection:
        connection.exec_driver_sql(_FILL)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM ANALYZE running, savepoints, forgotten")
    return engine


def rows_read(engine: Engine, statement: TextClause, values: Mapping[str, Any]) -> int:
    """The rows that the scans of a statement read, also those that a filter left out. Its changes are undone."""
    with engine.connect() as connection:
        analysed = text(f"EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF) {statement.text}")
        plan = list(connection.execute(analysed, values).scalars())
        connection.rollback()
    read = loops = 0.0
    for line in plan:
        node = re.search(r"actual rows=([\d.]+) loops=(\d+)", line)
        if node is not None:
            is_scan = "Scan" in line and not any(word in line for word in ("Subquery", "CTE", "Bitmap Index"))
            loops = float(node[2]) if is_scan else 0.0
            read += float(node[1]) * loops
        elif removed := re.search(r"Rows Removed by (?:Filter|Index Recheck): ([\d.]+)", line):
            read += float(removed[1]) * loops
    assert read > 0, "\n".join(plan)
    return round(read)


def test_rounds_read_what_changed_and_a_page(large: Engine) -> None:
    """Shard Manager: the rows of newer commits. Savepoints: a page of 1,000 by an index, and their jobs."""
    values = {"counter": RUNNING_COMMIT}
    assert rows_read(large, CHANGES, values | {"after": JOBS - 3}) < 20
    assert rows_read(large, CHANGES, values | {"after": -1}) >= JOBS
    assert rows_read(large, PAGE, {"after": "j050000", "most": 1_000}) <= 1_000
    jobs = [f"j{number:06}" for number in range(50_000, 50_334)]
    assert rows_read(large, EXPIRE, {"jobs": jobs, "count": 2, "seconds": None}) < 3_000


_OTHER_JOBS = "INSERT INTO jobs (name, revision) SELECT 'j' || n, 1 FROM generate_series(1, 20000) n"
_READ_IN_TURN = text("SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_xact_user_tables WHERE relname = 'jobs'")


def test_a_write_does_not_read_all_jobs(engine: Engine) -> None:
    """Of a cell of a middle size, in which Postgres would rather do so than look up a hundred."""
    with engine.begin() as connection:
        connection.exec_driver_sql(_OTHER_JOBS)
        connection.exec_driver_sql("ANALYZE jobs")
    for write in (
        Write(Action.CREATE, "etl", "ann", config=CONFIG),
        Write(Action.PUT, "etl", "ann", "oncall", {"priority": 3}, precondition=Precondition(if_match=0)),
    ):
        with transaction(engine) as connection:
            [done] = write_many(connection, [write], SystemClock(), 0.0, ())
            assert isinstance(done, Written)
            assert connection.execute(_READ_IN_TURN).scalar_one() < 100


@pytest.mark.parametrize("count", [2, 16, 64])
def test_a_group_of_writes_does_not_read_all_jobs(engine: Engine, count: int) -> None:
    """Nor does it once Postgres keeps a plan of the statement, whatever the size of the group."""
    with engine.begin() as connection:
        connection.exec_driver_sql(_OTHER_JOBS)
        connection.exec_driver_sql("ANALYZE jobs")
    with transaction(engine) as connection:
        jobs = [f"etl-{number}" for number in range(count)]
        configs = {job: {**CONFIG, "output": {"type": "kafka", "topic": job}} for job in jobs}
        created = [Write(Action.CREATE, job, "ann", config=config) for job, config in configs.items()]
        write_many(connection, created, SystemClock(), 0.0, ())
    for version in range(12):
        expects = Precondition(if_match=version)
        asked = [
            Asked(Write(Action.PUT, job, "ann", "oncall", {"priority": 3}, precondition=expects), 0.0) for job in jobs
        ]
        with transaction(engine) as connection:
            done = write_shared(connection, asked, SystemClock(), ())
            assert all(isinstance(each, Written) for each in done)
            assert connection.execute(_READ_IN_TURN).scalar_one() < 1_000


# One of 200 jobs reads a pattern, and one of 200 writes to a table that it shares; in no order of their names.
_FLOWS = """
    SET LOCAL session_replication_role = 'replica';
    INSERT INTO flows (job, reads, writes, folder, dead_letters)
        SELECT 'j' || n, ARRAY[CASE WHEN mod(n, 200) = 0 THEN '~pattern-.*' ELSE 't' || n END],
            CASE WHEN mod(n, 4) > 0 THEN 't' || n + 1 END,
            CASE WHEN mod(n, 4) = 0 AND mod(n, 200) <> 100 THEN '/data/' || n END, 'letters-' || n
        FROM generate_series(1, 20000) n ORDER BY md5(n::text);
    INSERT INTO expected_configs (job, revision, basis, config)
        SELECT 'j' || n, n, '', jsonb_build_object('output', jsonb_build_object(
            'type', 'delta', 'path', '/data/shared', 'allow_other_writers', mod(n, 200) = 100))
        FROM generate_series(1, 20000) n ORDER BY md5(n::text);
"""


@pytest.mark.parametrize("analysed", [False, True], ids=["before statistics", "with statistics"])
def test_a_write_finds_patterns_and_shared_tables_without_reading_all_flows(engine: Engine, analysed: bool) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql(_FLOWS)
        if analysed:
            connection.exec_driver_sql("ANALYZE flows, expected_configs")
    with transaction(engine) as connection:
        assert len(flows.readers_by_pattern(connection, "pattern-1")) == 100
        assert flows.shared_places(connection) == {"/data/shared"}
    assert rows_read(engine, flows.PATTERNS, {}) < 500
    assert rows_read(engine, flows.SHARERS, {}) < 500


def test_savepoints_go_a_page_of_jobs_at_a_time(engine: Engine) -> None:
    """Four jobs with three savepoints each, of which two are kept. Each look goes on after the one before; the look
    after the last job begins again. A job is looked at whole."""
    with transaction(engine) as connection:
        connection.execute(
            text(
                "INSERT INTO savepoints (job, name, state, author)"
                " SELECT 'j' || mod(n, 4), 's' || n, 'ready', 'ann' FROM generate_series(0, 11) n"
            )
        )
    store, epoch = SavepointStore(engine, most_ranked=4), elect(engine, "syncer")
    assert [store.expire(epoch, count=2, seconds=None) for _ in range(4)] == [2, 2, 0, 0]
    with transaction(engine) as connection:
        kept = connection.execute(text("SELECT name FROM savepoints WHERE state = 'ready' ORDER BY number")).scalars()
        assert list(kept) == [f"s{number}" for number in range(4, 12)]


def test_the_shard_manager_knows_jobs_by_their_changes(engine: Engine) -> None:
    """1. Two jobs. 2. One changes, one comes. 3. One stops; its selector stays. 4. One is forgotten. 5. It comes again.
    6. The store is restored to an older state."""
    jobs = RunningJobs()
    commit_job(engine, "a", task_count=1)
    commit_job(engine, "b", task_count=1, region="east")
    assert _known(engine, jobs) == {"a": 1, "b": 1}
    commit_job(engine, "a", task_count=3)
    commit_job(engine, "c", task_count=1)
    assert _known(engine, jobs) == {"a": 3, "b": 1, "c": 1}
    commit_job(engine, "b", task_count=1, region="east", stopping=True)
    assert _known(engine, jobs) == {"a": 3, "c": 1}
    with transaction(engine) as connection:
        assert jobs.selectors(connection) == {"east"}
    forget_job(engine, "c")
    assert _known(engine, jobs) == {"a": 3}
    commit_job(engine, "c", task_count=2)
    assert _known(engine, jobs) == {"a": 3, "c": 2}
    with transaction(engine) as connection:
        for statement in (
            "SET LOCAL session_replication_role = 'replica'",
            "UPDATE counters SET value = 1 WHERE name = 'running_commit'",
            "DELETE FROM running WHERE job <> 'a'",
            "UPDATE running SET commit_number = 1",
        ):
            connection.execute(text(statement))
    assert _known(engine, jobs) == {"a": 3}


def _known(engine: Engine, jobs: RunningJobs) -> dict[str, int]:
    with transaction(engine) as connection:
        return {each.job: each.task_count for each in jobs.with_tasks(connection)}
