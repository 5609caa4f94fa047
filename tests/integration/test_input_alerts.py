"""Alerts about the inputs of tasks, from their reports in a real Postgres."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from psycopg.types.json import Jsonb
from sqlalchemy import Engine, text

from penstock.model.alerts import INPUT_ALERTS, UNREADABLE_INPUT, AlertKind
from penstock.model.reports import TaskProgress
from penstock.store.alerts import open_subjects
from penstock.store.engine import snapshot, transaction
from services.job_service.store.overview import alerts_page
from services.state_syncer.inputs.reconciler import TO_LOOK_AT, InputAlerts
from tests.support.state_syncer.cell import elect

(MIGRATION,) = Path("migrations/versions").glob("*_input_problems.sql")
_REPORT = text(
    """
    INSERT INTO tasks (job, index, container, state, revision, generation, restarts, epoch, progress)
    VALUES (:job, :index, :container, :state, 1, 1, 0, 1, :progress)
    ON CONFLICT (job, index, container) DO UPDATE SET progress = excluded.progress, state = excluded.state
    """
)

_WELL_TASKS = text(
    """
    INSERT INTO tasks (job, index, container, state, revision, generation, restarts, epoch, progress)
    SELECT 'well-' || job, 0, 'c', 'running', 1, 1, 0, 1, :progress FROM generate_series(1, 3000) AS job
    """
)


def report(
    engine: Engine, job: str, index: int, problems: dict[str, str], state: str = "running", container: str = "c"
) -> None:
    progress = TaskProgress(input_problems=problems).model_dump(mode="json")
    row: dict[str, Any] = {"job": job, "index": index, "state": state, "progress": Jsonb(progress)}
    row["container"] = container
    with transaction(engine) as connection:
        connection.execute(_REPORT, row)


@pytest.mark.parametrize("malformed", [AlertKind.MALFORMED_RECORDS, AlertKind.LATE_ROWS])
def test_what_running_tasks_report_is_open_until_they_do_not(engine: Engine, malformed: AlertKind) -> None:
    """1. Two tasks of a job and one of another report; so does one that does not run. 2. A minute later one job is
    well. 3. Nobody looks in between. 4. Malformed records and late rows are told for five minutes, also by a task
    that started anew."""
    not_read, mismatch, *_ = INPUT_ALERTS
    report(engine, "a", 0, {not_read: "4 of 8", malformed: "3 came"})
    report(engine, "a", 1, {not_read: "4 of 8"})
    report(engine, "b", 0, {mismatch: "crc32"})
    report(engine, "c", 0, {mismatch: "crc32"}, state="crashed")
    report(engine, "d", 0, {})
    times = [0.0]
    epoch = elect(engine, "first")
    alerts = InputAlerts(engine, lambda: times[0])

    def found() -> dict[tuple[str, str], str]:
        alerts.round(epoch)
        with transaction(engine) as connection:
            return {(alert.subject, alert.kind): alert.message for alert in alerts_page(connection, limit=9)}

    assert found() == {
        ("a", not_read): "task 0: 4 of 8 (and 1 more task)",
        ("a", malformed): "task 0: 3 came",
        ("b", mismatch): "task 0: crc32",
    }
    report(engine, "a", 0, {})
    report(engine, "a", 1, {})
    times[0] = 59.0
    assert len(found()) == 3
    times[0] = 60.0
    assert found() == {("a", malformed): "task 0: 3 came", ("b", mismatch): "task 0: crc32"}
    with transaction(engine) as connection:
        connection.execute(text("UPDATE alerts SET last_at = now() - interval '5 minutes' WHERE subject = 'a'"))
    times[0] = 120.0
    assert found() == {("b", mismatch): "task 0: crc32"}


def test_a_topic_that_is_gone_is_told_until_all_tasks_run_again(engine: Engine) -> None:
    """1. The topic of two tasks is gone. 2. One ends, and its start is refused; then the other, too. 3. The topic is
    back, and one runs. 4. So does the other; a third task, which never named the topic, does not. 5. It is gone once
    more, and the job is stopped: no task, no alert."""
    kind, gone = "input_unreadable", {"input_unreadable": "there is no topic t"}
    now = 0.0
    epoch = elect(engine, "first")
    alerts = InputAlerts(engine, lambda: now)

    def subjects() -> set[str]:
        nonlocal now
        alerts.round(epoch)
        now += 60.0
        with snapshot(engine) as connection:
            return open_subjects(connection, AlertKind(kind))

    tells: list[tuple[int, dict[str, str], str]] = [(0, gone, "running"), (1, gone, "running"), (0, {}, "crashed")]
    tells += [(1, {}, "starting"), (0, {}, "running")]
    for index, problems, state in tells:
        report(engine, "a", index, problems, state=state)
        assert subjects() == {"a"}
    report(engine, "a", 1, {})
    report(engine, "a", 2, {}, state="starting")
    assert subjects() == set()
    report(engine, "a", 1, gone)
    assert subjects() == {"a"}
    with transaction(engine) as connection:
        connection.execute(text("DELETE FROM tasks WHERE job = 'a'"))
    assert subjects() == set()


def test_tasks_whose_start_is_refused_for_a_topic_are_told(engine: Engine) -> None:
    """1. Tasks of two jobs ended. One is refused since its topic is gone, the other for its query. 2. It runs again."""
    gone = "inputs.events: there is no topic t; there are: u\nmore"
    for job, error in (("a", gone), ("b", "query: there is no topic column")):
        report(engine, job, 0, {}, state="crashed")
        with transaction(engine) as connection:
            connection.execute(text("UPDATE tasks SET error = :e, crashes = 3 WHERE job = :j"), {"e": error, "j": job})
            crashed = "INSERT INTO task_crashes VALUES (:j, 0, ARRAY[now()], now(), 1, :e)"
            connection.execute(text(crashed), {"e": error, "j": job})
    now = 0.0
    epoch = elect(engine, "first")
    alerts = InputAlerts(engine, lambda: now)
    alerts.round(epoch)
    with snapshot(engine) as connection:
        (alert,) = alerts_page(connection, limit=9)
    told = (alert.kind, alert.subject, alert.message)
    assert told == ("input_unreadable", "a", "task 0: inputs.events: there is no topic t; there are: u")
    report(engine, "a", 0, {})
    now = 60.0
    alerts.round(epoch)
    with snapshot(engine) as connection:
        assert not alerts_page(connection, limit=9)


def test_a_look_reads_some_jobs_and_the_next_ones_the_others(engine: Engine) -> None:
    """1. Seven jobs have a problem, three are read in a look. 2. They are well again: a look closes three alerts."""
    (not_read, *_) = INPUT_ALERTS
    jobs = [f"job-{number}" for number in range(7)]
    for job in jobs:
        report(engine, job, 0, {not_read: "4 of 8"})
    now = 0.0
    epoch = elect(engine, "first")
    alerts = InputAlerts(engine, lambda: now, most_jobs=3)

    def subjects() -> list[str]:
        alerts.round(epoch)
        with snapshot(engine) as connection:
            return sorted(open_subjects(connection, not_read))

    for seen in (jobs[:3], jobs[:6], jobs):
        assert subjects() == seen
        now += 60.0
    for job in jobs:
        report(engine, job, 0, {})
    assert len(subjects()) == 4


def test_a_task_that_two_containers_report_counts_once_by_the_newer_report(engine: Engine) -> None:
    (not_read, *_) = INPUT_ALERTS
    for container, reason in (("b", "4 of 6"), ("a", "4 of 8")):
        report(engine, "a", 0, {not_read: reason}, container=container)
    report(engine, "a", 1, {not_read: "4 of 8"})
    InputAlerts(engine, lambda: 0.0).round(elect(engine, "first"))
    with snapshot(engine) as connection:
        (alert,) = alerts_page(connection, limit=9)
    assert (alert.message, alert.details) == ("task 0: 4 of 8 (and 1 more task)", {"tasks": [0, 1]})


def test_tasks_with_a_problem_are_found_by_their_index(engine: Engine) -> None:
    """Among thousands that are well. And none that crashed since."""
    (not_read, *_) = INPUT_ALERTS
    report(engine, "a", 0, {not_read: "4 of 8"})
    report(engine, "b", 0, {not_read: "4 of 8"})
    report(engine, "b", 0, {not_read: "4 of 8"}, state="crashed")
    values: dict[str, Any] = {"kinds": [not_read], "after": "", "most": 9, "unreadable": UNREADABLE_INPUT}
    with transaction(engine) as connection:
        connection.execute(_WELL_TASKS, {"progress": Jsonb(TaskProgress().model_dump(mode="json"))})
        connection.execute(text("ANALYZE tasks"))
        plan = "\n".join(connection.execute(text(f"EXPLAIN {TO_LOOK_AT.text}"), values).scalars())
        found = list(connection.execute(TO_LOOK_AT, values).scalars())
    assert "ix_tasks_input_problems" in plan
    assert found == ["a"]


def test_the_index_comes_without_a_copy_of_the_table(engine: Engine) -> None:
    """A task that has a problem already is found, too. Whoever holds the table is not waited for at length."""
    (not_read, *_) = INPUT_ALERTS
    report(engine, "a", 0, {not_read: "4 of 8"})
    with transaction(engine) as connection:
        connection.execute(
            text(
                "DROP TRIGGER input_problems ON tasks; ALTER TABLE tasks DROP COLUMN has_input_problems;"
                " DROP FUNCTION note_input_problems, has_input_problems"
            )
        )
        files = text("SELECT pg_relation_filenode('tasks')")
        before = connection.execute(files).scalar_one()
        connection.exec_driver_sql(MIGRATION.read_text(encoding="utf-8"), execution_options={"no_parameters": True})
        assert connection.execute(files).scalar_one() == before
        assert connection.execute(text("SHOW lock_timeout")).scalar_one() == "5s"
        assert connection.execute(text("SELECT job FROM tasks WHERE has_input_problems")).scalars().all() == ["a"]


def test_of_two_containers_that_report_a_task_the_newer_assignment_counts(engine: Engine) -> None:
    """Not the row that was written last: a container writes a row only when something of it changed."""
    (not_read, *_) = INPUT_ALERTS
    report(engine, "a", 0, {not_read: "5 of 8"}, container="new")
    with transaction(engine) as connection:
        connection.execute(text("UPDATE tasks SET epoch = 2"))
    report(engine, "a", 0, {not_read: "4 of 8"}, container="former")
    with transaction(engine) as connection:
        connection.execute(
            text("UPDATE tasks SET reported_at = now() + interval '1 minute' WHERE container = 'former'")
        )
    InputAlerts(engine, lambda: 0.0).round(elect(engine, "syncer"))
    with transaction(engine) as connection:
        (alert,) = alerts_page(connection, limit=9)
    assert alert.message == "task 0: 5 of 8"
