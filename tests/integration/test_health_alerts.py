"""Crashes as reports bring them, and the alerts about the health of jobs, in a real Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Engine, text

from penstock.control.errors import Fenced
from penstock.control.process import wait_until
from penstock.model.alerts import AlertKind
from penstock.model.reports import TaskProgress, TaskReport, TaskReportBatch, TaskState
from penstock.store.alerts import open_subjects
from penstock.store.engine import snapshot, transaction
from penstock.tasks.ownership import Member
from services.job_service.store.overview import alerts_page
from services.shard_manager.store.members import register
from services.state_syncer.health.reconciler import HealthAlerts
from services.task_service.store.reports import purge_crashes, save_report
from tests.support.state_syncer.cell import depose, elect
from tests.support.store.running import commit_job, forget_job
from tests.support.store.samples import take_samples
from tests.support.store.statements import counted_statements

RUNS_WELL = {"state": TaskState.RUNNING, "progress": TaskProgress(batch_id=4, backlog_records=0)}
CRASHED = {"state": TaskState.CRASHED, "error": "ValueError: 3 is no delay\n  at rules.py:3"}


@pytest.fixture
def engine(engine: Engine) -> Engine:
    """A job that is committed, and two containers."""
    with transaction(engine) as connection:
        for name in ("x", "y"):
            register(connection, Member(name, "1", f"http://{name}", "local", 1.0, 1, 1), empty=True)
        connection.execute(text("INSERT INTO jobs (name, revision) VALUES ('a', 1)"))
    commit_job(engine, "a", task_count=1)
    return engine


def report(engine: Engine, container: str = "x", index: int = 0, **facts: Any) -> None:
    identity = {"job": "a", "index": index, "revision": 1, "generation": 1, "restarts": 0, "epoch": 1}
    tasks = (TaskReport(**(identity | facts)),) if facts else ()
    batch = TaskReportBatch(container=container, incarnation="1", commit_number=1, version=1, tasks=tasks)
    with transaction(engine) as connection:
        save_report(connection, batch)
    take_samples(engine)


def execute(engine: Engine, statement: str) -> None:
    with transaction(engine) as connection:
        connection.execute(text(statement))


def crashes(engine: Engine) -> list[tuple[int, int, str]]:
    with snapshot(engine) as connection:
        rows = connection.execute(
            text("SELECT index, cardinality(crashed_at), split_part(error, ':', 1) FROM task_crashes ORDER BY index")
        )
        return [tuple(row) for row in rows]


def test_each_crash_is_noted_once_wherever_the_task_runs(engine: Engine) -> None:
    """1. Two crashes, told twice. 2. The task ran well, and crashes once more. 3. It moves, and crashes there.
    4. Five are kept. 5. They go with the job, or after a day."""
    report(engine, crashes=2, **CRASHED)
    report(engine, crashes=2, **CRASHED)
    assert crashes(engine) == [(0, 2, "ValueError")]
    report(engine, **RUNS_WELL)
    report(engine, crashes=1, **CRASHED)
    assert crashes(engine) == [(0, 3, "ValueError")]
    report(engine)
    report(engine, container="y", crashes=1, state=TaskState.CRASHED, error="OSError: no disk")
    assert crashes(engine) == [(0, 4, "OSError")]
    report(engine, container="y", crashes=9, **CRASHED)
    assert crashes(engine) == [(0, 5, "ValueError")]
    report(engine, index=1, crashes=1, **CRASHED)
    execute(engine, "UPDATE task_crashes SET newest_at = newest_at - interval '25 hours' WHERE index = 0")
    with transaction(engine) as connection:
        assert purge_crashes(connection) == 1
    assert crashes(engine) == [(1, 1, "ValueError")]
    depose(engine)
    execute(engine, "UPDATE jobs SET deleting = true")
    forget_job(engine, "a")
    assert crashes(engine) == []


class Alerts:
    """The reconciler, and a clock that is always late enough."""

    def __init__(self, engine: Engine, most_judged: int = 9) -> None:
        depose(engine)
        self._engine = engine
        self._now = 0.0
        self._epoch = elect(engine, "first")
        self._alerts = HealthAlerts(engine, lambda: self._now, most_judged)

    def look(self, seconds: float) -> None:
        self._now += seconds
        self._alerts.round(self._epoch)

    def after(self, seconds: float) -> Sequence[tuple[str, str]]:
        self.look(seconds)
        with snapshot(self._engine) as connection:
            return [(alert.kind, alert.message.split("\n")[0]) for alert in alerts_page(connection, limit=9)]


def test_a_task_that_crashes_again_and_again_is_told_until_it_is_known_to_do_better(engine: Engine) -> None:
    """1. Two crashes are no series. 2. The third is. 3. It starts, or its container is silent: nobody knows yet. 4. It
    runs well, but has not for long. 5. It has. 6. Nobody looks twice in 15 s."""
    alerts = Alerts(engine)
    told = (AlertKind.TASK_CRASHING, "task 0: crashes again and again: ValueError: 3 is no delay")
    report(engine, crashes=2, **CRASHED)
    assert alerts.after(15) == []
    report(engine, crashes=3, **CRASHED)
    assert alerts.after(14) == []
    assert alerts.after(1) == [told]
    execute(engine, "UPDATE task_crashes SET revision = 0")
    report(engine, state=TaskState.STARTING)
    assert alerts.after(15) == [told]
    report(engine, **RUNS_WELL)
    execute(engine, "UPDATE reports SET reported_at = now() - interval '1 minute'")
    assert alerts.after(15) == [told]
    execute(engine, "UPDATE task_crashes SET revision = 1")
    report(engine, **RUNS_WELL)
    assert alerts.after(15) == [told]
    execute(
        engine,
        "UPDATE task_crashes SET crashed_at ="
        " ARRAY(SELECT each - interval '2 minutes' FROM unnest(crashed_at) AS each ORDER BY each)",
    )
    assert alerts.after(15) == []


def run_of(engine: Engine, revision: int, restarts: int = 0, **changes: Any) -> Any:
    """Commits a change of the job `a`; what its tasks run."""
    depose(engine)
    execute(engine, "UPDATE running SET revision = 0")
    commit_job(engine, "a", task_count=1, **changes)
    execute(engine, f"UPDATE running SET revision = {revision}, restarts = {restarts} WHERE job = 'a'")
    return task_run(engine)


def task_run(engine: Engine) -> Any:
    with snapshot(engine) as connection:
        return connection.execute(text("SELECT task_run FROM running WHERE job = 'a'")).scalar_one()


def test_a_series_of_crashes_goes_on_unless_the_task_is_restarted_for_a_change(engine: Engine) -> None:
    """1. The task crashed three times and runs again. 2. A live change is taken over: it goes on. 3. A change that
    restarts the task ends it. 4. One crash after that is no series; three are."""
    told = (AlertKind.TASK_CRASHING, "task 0: crashes again and again: ValueError: 3 is no delay")
    report(engine, crashes=3, **CRASHED)
    report(engine, **RUNS_WELL)
    assert Alerts(engine).after(15) == [told]
    run_of(engine, 2, priority=7)
    report(engine, **RUNS_WELL, revision=2)
    assert Alerts(engine).after(15) == [told]
    run_of(engine, 3, trigger_interval_seconds=7)
    report(engine, **RUNS_WELL, revision=3)
    assert Alerts(engine).after(15) == []
    report(engine, crashes=1, revision=3, **CRASHED)
    report(engine, **RUNS_WELL, revision=3)
    assert Alerts(engine).after(15) == []
    assert crashes(engine) == [(0, 1, "ValueError")]
    report(engine, crashes=2, revision=3, **CRASHED)
    report(engine, **RUNS_WELL, revision=3)
    assert Alerts(engine).after(15) == [told]


def test_the_store_names_what_restarts_tasks_as_the_task_manager_has_it(engine: Engine) -> None:
    before = run_of(engine, 1)
    assert run_of(engine, 2, priority=7) == before
    assert run_of(engine, 2, owner="ann") == before
    others = [run_of(engine, 2, restarts=1), run_of(engine, 2, trigger_interval_seconds=7), run_of(engine, 2)]
    assert (len(set(others)), others[-1]) == (3, before)
    execute(engine, "UPDATE running SET generation = 2")
    assert task_run(engine) != before
    execute(engine, "UPDATE running SET digests = '{}'")
    assert task_run(engine) is None


def test_an_alert_about_a_job_that_is_gone_ends(engine: Engine) -> None:
    alerts = Alerts(engine)
    report(engine, crashes=3, **CRASHED)
    assert len(alerts.after(15)) == 1
    execute(engine, "DELETE FROM jobs")
    assert alerts.after(15) == []


MANY = [f"b{number}" for number in range(7)]


def many_crash(engine: Engine) -> None:
    """Seven more jobs, of which a task crashed three times."""
    for name in MANY:
        execute(engine, f"INSERT INTO jobs (name, revision) VALUES ('{name}', 1)")
        commit_job(engine, name, task_count=1)
    execute(
        engine,
        "INSERT INTO tasks (job, index, container, state, revision, generation, restarts, epoch, crashes, error)"
        " SELECT job, 0, 'y', 'crashed', revision, 1, 0, 1, 3, 'boom' FROM running WHERE job <> 'a'",
    )
    execute(
        engine,
        "INSERT INTO task_crashes (job, index, crashed_at, newest_at, revision, error)"
        " SELECT job, index, array_fill(now(), ARRAY[3]), now(), revision, error FROM tasks",
    )


def open_alerts(engine: Engine) -> list[str]:
    with snapshot(engine) as connection:
        return sorted(open_subjects(connection, AlertKind.TASK_CRASHING))


def test_a_look_judges_some_jobs_and_the_next_ones_the_others(engine: Engine) -> None:
    """1. Seven jobs crash, three are judged in a look. 2. They are well again: a look closes three alerts. However many
    there are, a look has as many statements."""
    many_crash(engine)
    alerts = Alerts(engine, most_judged=3)
    seen, statements = [], []
    for _ in range(3):
        with counted_statements(engine) as sent:
            alerts.look(15)
        statements.append(len(sent))
        seen.append(open_alerts(engine))
    assert seen == [MANY[:3], MANY[:6], MANY]
    assert len(set(statements[:2])) == 1
    execute(engine, "DELETE FROM task_crashes")
    execute(engine, "DELETE FROM jobs")
    with counted_statements(engine) as sent:
        alerts.look(15)
    assert len(open_alerts(engine)) == 4
    assert len(sent) <= statements[0]


def test_a_look_that_fails_is_not_repeated_at_once(engine: Engine) -> None:
    """1. Another leader was elected meanwhile. 2. Within 15 s nothing is read again."""
    many_crash(engine)
    alerts = Alerts(engine)
    depose(engine)
    elect(engine, "second")
    with pytest.raises(Fenced):
        alerts.look(15)
    with counted_statements(engine) as sent:
        alerts.look(14)
    assert sent == []


def within_a_minute(engine: Engine) -> None:
    """Returns when the store's minute does not end soon: samples that a test moves back in time have no gap then."""
    with engine.connect() as connection:
        second = text("SELECT extract(second FROM clock_timestamp())")
        wait_until(lambda: connection.execute(second).scalar_one() < 50, 30, "the next minute")


# The oldest first: a row may not take the minute of another.
_MINUTE = """
    DO $$ DECLARE moved record; BEGIN
        FOR moved IN SELECT job, index, minute FROM task_metrics ORDER BY minute LOOP
            UPDATE task_metrics SET minute = minute - interval '1 minute'
            WHERE (job, index, minute) = (moved.job, moved.index, moved.minute);
        END LOOP;
    END $$
"""


def test_a_job_over_its_slo_for_a_while_is_told_until_it_is_known_to_be_within(engine: Engine) -> None:
    """1. Over the SLO for two whole minutes. 2. For three. 3. Its lag is unknown. 4. It is within."""
    within_a_minute(engine)
    alerts = Alerts(engine)
    behind = {"batch_id": 4, "backlog_records": 2_000, "processed_rows_per_second": 10.0}
    told = (AlertKind.JOB_LAGGING, "task 0: is 200 s behind; its SLO is 90 s")
    for _ in range(2):
        report(engine, state=TaskState.RUNNING, progress=TaskProgress(**behind))
        execute(engine, _MINUTE)
    report(engine, state=TaskState.RUNNING, progress=TaskProgress(**behind))
    assert alerts.after(15) == []
    execute(engine, _MINUTE)
    report(engine, state=TaskState.RUNNING, progress=TaskProgress(**(behind | {"backlog_records": None})))
    assert alerts.after(15) == []
    report(engine, state=TaskState.RUNNING, progress=TaskProgress(**behind))
    assert alerts.after(15) == [told]
    report(engine, state=TaskState.RUNNING, progress=TaskProgress(**(behind | {"backlog_records": None})))
    assert alerts.after(15) == [told]
    report(engine, **RUNS_WELL)
    assert alerts.after(15) == []


@pytest.mark.parametrize(("slo", "is_lagging"), [(150, True), (250, False)])
def test_the_slo_is_the_jobs_own(engine: Engine, slo: int, is_lagging: bool) -> None:
    """200 s behind for three minutes and now, also where another job has a smaller SLO."""
    within_a_minute(engine)
    commit_job(engine, "other", slo={"max_lag_seconds": 1})
    commit_job(engine, "a", task_count=1, slo={"max_lag_seconds": slo})
    behind = TaskProgress(batch_id=4, backlog_records=2_000, processed_rows_per_second=10.0)
    for _ in range(3):
        report(engine, state=TaskState.RUNNING, progress=behind)
        execute(engine, _MINUTE)
    report(engine, state=TaskState.RUNNING, progress=behind)
    assert bool(Alerts(engine).after(15)) == is_lagging
