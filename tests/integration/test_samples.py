"""Samples of all tasks, once a minute, kept by day: days come ahead of time, and go whole."""

from __future__ import annotations

from typing import Any

import pytest
from alembic import command
from sqlalchemy import Engine, text

from penstock.model.reports import TaskProgress, TaskReport, TaskReportBatch, TaskState
from penstock.store import migrate
from penstock.store.engine import connect, transaction
from penstock.store.incarnation import begin_incarnation
from penstock.tasks.ownership import Member
from penstock.tasks.rollout import RanBefore, RunningRollout
from services.shard_manager.store.members import register
from services.task_service.sampler import Sampler
from services.task_service.store.hours import HourStore
from services.task_service.store.reports import save_report
from services.task_service.store.samples import DAYS_AHEAD, SampleStore
from tests.support.control.clock import FakeClock
from tests.support.store.jobs import write_layer
from tests.support.store.running import commit_job
from tests.support.store.samples import take_samples

_PARTS = "SELECT part FROM sample_parts ORDER BY ends"
_ADD_DAY = """
    SELECT add_samples_part(day, day + interval '1 day')
    FROM CAST(date_trunc('day', now(), 'UTC') + make_interval(days => {days}) AS timestamptz) AS day
"""
_INSERT = "INSERT INTO task_metrics (job, index, minute, backlog_records) VALUES ('a', 0, {minute}, {backlog})"


def report(engine: Engine, container: str, epoch: int, *indices: int, backlog: int = 5, **more: Any) -> None:
    tasks = tuple(
        TaskReport(
            job="a",
            index=index,
            state=TaskState.RUNNING,
            revision=1,
            generation=1,
            restarts=0,
            epoch=epoch,
            progress=TaskProgress(batch_id=1, backlog_records=backlog),
            **more,
        )
        for index in indices
    )
    batch = TaskReportBatch(container=container, incarnation="1", commit_number=1, version=1, tasks=tasks)
    with transaction(engine) as connection:
        register(connection, Member(container, "1", f"http://{container}", "local", 1.0, 1, 1), empty=True)
        save_report(connection, batch)


def run(engine: Engine, statement: str) -> list[object]:
    with transaction(engine) as connection:
        found = connection.execute(text(statement))
        return list(found.scalars()) if found.returns_rows else []


def test_one_process_takes_the_samples_of_a_minute(engine: Engine) -> None:
    """Of a task that two containers report the newer assignment counts; a silent container says nothing."""
    report(engine, "x", 1, 0, 1, backlog=1)
    report(engine, "y", 2, 1, 2, backlog=2)
    report(engine, "z", 3, 3, backlog=3)
    run(engine, "UPDATE reports SET reported_at = now() - interval '2 minutes' WHERE container = 'z'")
    minute = "SELECT date_trunc('minute', clock_timestamp())"
    before, taken, again, after = (
        run(engine, minute),
        take_samples(engine),
        SampleStore(engine).take(),
        run(engine, minute),
    )
    assert (taken, again) == (3, None) or before != after
    assert run(engine, "SELECT backlog_records FROM task_metrics ORDER BY index") == [1, 2, 2]


def test_each_error_is_counted_in_one_minute(engine: Engine) -> None:
    """1. Two errors, told twice. 2. Nothing since. 3. One more, of another class, while it runs again."""
    found = "SELECT ARRAY[errors_host, errors_other, errors_fenced] FROM task_metrics ORDER BY minute DESC LIMIT 1"
    counts = []
    for crashes, error_class, times in ((2, "host", 2), (2, "host", 1), (3, None, 1)):
        for _ in range(times):
            report(engine, "x", 1, 0, crashes=crashes, error_class=error_class)
        take_samples(engine)
        counts += run(engine, found)
    assert counts == [[2, 0, 0], [0, 0, 0], [0, 1, 0]]


def test_samples_do_not_wait_for_a_report_that_counts_errors(engine: Engine) -> None:
    """1. A report holds the count of a task. 2. Samples leave it. 3. The next ones have it."""
    report(engine, "x", 1, 0, crashes=1, error_class="host")
    with engine.begin() as other:
        other.execute(text("SELECT FROM unsampled_errors FOR UPDATE"))
        take_samples(engine)
        assert run(engine, "SELECT errors_host FROM task_metrics") == [0]
    take_samples(engine)
    assert run(engine, "SELECT errors_host FROM task_metrics") == [1]


@pytest.mark.parametrize(("running", "counts"), [(1, True), (2, False)])
def test_a_lack_of_memory_counts_for_the_revision_that_lacked_it(engine: Engine, running: int, counts: bool) -> None:
    """The job is at revision 2 already, and its task, which crashed at revision 1, has not started with it."""
    report(engine, "x", 1, 0)
    run(engine, "UPDATE tasks SET state = 'crashed', out_of_memory = true")
    write_layer(engine, "a", {})
    commit_job(engine, "a")
    run(engine, f"UPDATE running SET revision = {running}")
    take_samples(engine)
    assert run(engine, "SELECT out_of_memory FROM task_metrics") == [counts]


@pytest.mark.parametrize(("before", "of", "counts"), [(1, 2, [False, True]), (2, 2, [False] * 2), (1, 1, [False] * 2)])
def test_in_a_rollout_a_lack_of_memory_counts_for_tasks_that_are_not_upgraded(
    engine: Engine, before: int, of: int, counts: list[bool]
) -> None:
    """1. Revision 2 has gone to the first of two tasks. Both lacked memory at revision 1. 2. The first one has not
    started with its own, the other one should not. 3. A rollout of an earlier revision is of no account."""
    report(engine, "x", 1, 0, 1)
    run(engine, "UPDATE tasks SET state = 'crashed', out_of_memory = true")
    write_layer(engine, "a", {})
    commit_job(engine, "a")
    rollout = RunningRollout(revision=of, upgraded=1, before=RanBefore(config={}, revision=before, restarts=0))
    written = rollout.model_dump_json().replace(":", r"\:")
    run(engine, f"UPDATE running SET revision = 2, rollout = '{written}'")
    take_samples(engine)
    assert run(engine, "SELECT out_of_memory FROM task_metrics ORDER BY index") == counts


def test_samples_are_taken_after_the_store_was_restored_also_twice(engine: Engine) -> None:
    report(engine, "x", 1, 0)
    store = SampleStore(engine)
    for _ in range(2):
        assert take_samples(engine) == 1
        with transaction(engine) as connection:
            begin_incarnation(connection, author="test", reason="test")
        report(engine, "x", 1, 0)
        later(engine)
        assert store.take() == 1


def later(engine: Engine) -> None:
    """As a minute later, without the samples of before."""
    run(engine, "UPDATE sampled SET minute = minute - interval '1 minute'")
    run(engine, "DELETE FROM task_metrics")


@pytest.mark.parametrize(("minutes", "taken"), [(1, None), (5, None), (7, 0), (1_000_000, 0)])
def test_a_minute_far_ahead_holds_nobody_up(engine: Engine, minutes: int, taken: int | None) -> None:
    """Up to five minutes are those of a server whose clock was a little ahead: they come again."""
    ahead = "date_trunc('minute', clock_timestamp()) + make_interval(mins => {})"
    run(engine, f"UPDATE sampled SET minute = {ahead.format(minutes)}")
    assert SampleStore(engine).take() == taken


def test_samples_of_another_release_are_kept_and_these_are_left_out(engine: Engine) -> None:
    report(engine, "x", 1, 0)
    for minutes in (0, 1):
        run(engine, _INSERT.format(minute=f"date_trunc('minute', now()) + interval '{minutes} minute'", backlog=9))
    assert SampleStore(engine).take() is None
    assert run(engine, "SELECT DISTINCT backlog_records FROM task_metrics") == [9]


def test_days_come_ahead_and_go_whole(engine: Engine) -> None:
    """1. A week is there. 2. Some days are missing: they come. 3. No day is old. 4. Some are: they go, oldest first."""
    store = SampleStore(engine)
    parts = run(engine, _PARTS)
    assert len(parts) == DAYS_AHEAD + 1
    run(engine, f"DROP TABLE {parts[-1]}, {parts[-2]}")
    store.add_days()
    store.add_days()
    assert run(engine, _PARTS) == parts
    assert store.drop_oldest(1, unrolled_days=1) is None
    run(engine, f"DROP TABLE {parts[0]}")
    for days in range(-4, 1):
        run(engine, _ADD_DAY.format(days=days))
    old = run(engine, _PARTS)[:5]
    assert old[4] == parts[0]
    assert [store.drop_oldest(1, unrolled_days=1) for _ in range(4)] == [*old[:3], None]
    assert run(engine, _PARTS) == [old[3], *parts]
    run(engine, _INSERT.format(minute="now() + interval '4 days'", backlog=1))


def test_the_sampler_does_what_is_due(engine: Engine) -> None:
    """1. Early in a minute it tends the days only. 2. Late in it, it takes the samples."""
    report(engine, "x", 1, 0)
    last = run(engine, _PARTS)[-1]
    run(engine, f"DROP TABLE {last}")
    clock = FakeClock()
    sampler = Sampler(SampleStore(engine), HourStore(engine), clock, keep_days=14, keep_task_days=2)
    clock.seconds = 60.0 * 50 + 10
    sampler.step()
    assert run(engine, _PARTS)[-1] == last
    assert run(engine, "SELECT count(*) FROM task_metrics") == [0]
    clock.seconds += 31.0
    sampler.step()
    assert run(engine, "SELECT count(*) FROM task_metrics") == [1]


@pytest.fixture
def former(empty_database_url: str) -> Engine:
    """A store of the release before, with a sample of three days ago and one of the upgrade's minute or later."""
    engine = connect(empty_database_url)
    with engine.begin() as connection:
        config = migrate._config()
        config.attributes["connection"] = connection
        command.upgrade(config, "0007")
    run(engine, _INSERT.format(minute="date_trunc('minute', now()) - interval '3 days'", backlog=1))
    run(engine, _INSERT.format(minute="date_trunc('minute', now()) + interval '9 minutes'", backlog=2))
    return engine


def test_samples_of_the_release_before_are_kept_without_being_copied(former: Engine, empty_database_url: str) -> None:
    """1. The schema is upgraded: the old table stays as it is, new samples go to the day. 2. The old ones are checked,
    and become the oldest part. 3. A Task Service of the release before writes on. 4. Days later they go whole."""
    file = run(former, "SELECT pg_relation_filenode('task_metrics')")
    migrate.upgrade(empty_database_url)
    assert run(former, "SELECT pg_relation_filenode('task_metrics_before')") == file
    assert 1 not in run(former, "SELECT backlog_records FROM task_metrics")
    oldest = "SELECT date_trunc('hour', min(minute), 'UTC') FROM task_metrics_before"
    assert run(former, "SELECT hour FROM rolled") == run(former, oldest), "the old ones are to be rolled, too"
    store = SampleStore(former)
    assert (store.keep_former(), store.keep_former()) == (True, False)
    assert run(former, "SELECT backlog_records FROM task_metrics ORDER BY minute") == [1, 2]
    assert run(former, "SELECT pg_relation_filenode('task_metrics_before')") == file
    upsert = " ON CONFLICT (job, index, minute) DO UPDATE SET backlog_records = excluded.backlog_records"
    for backlog in (3, 4):
        run(former, _INSERT.format(minute="date_trunc('minute', clock_timestamp())", backlog=backlog) + upsert)
    assert store.drop_oldest(14, unrolled_days=14) is None
    run(former, "ALTER TABLE task_metrics DETACH PARTITION task_metrics_before")
    ended = run(former, "SELECT now() - interval '2 days'")[0]
    attached = f"ATTACH PARTITION task_metrics_before FOR VALUES FROM (MINVALUE) TO ('{ended}')"
    run(former, f"ALTER TABLE task_metrics {attached}")
    assert store.drop_oldest(1, unrolled_days=1) == "task_metrics_before"
    assert 1 not in run(former, "SELECT backlog_records FROM task_metrics")
    former.dispose()


def test_a_report_of_the_release_before_ends_what_changes_may_build_on(engine: Engine) -> None:
    """It writes no number: changes to the report before it would be changes to other tasks."""
    report(engine, "x", 1, 0)
    run(engine, "UPDATE reports SET number = 5, base = 5")
    run(
        engine,
        "INSERT INTO reports (container, incarnation, commit_number, version) VALUES ('x', '1', 2, 2)"
        " ON CONFLICT (container) DO UPDATE SET commit_number = excluded.commit_number",
    )
    assert run(engine, "SELECT base FROM reports") == [None]
