"""What minutes of jobs cost the store: `python -m tests.bench.job_metrics [--jobs 500] [--hours 24] [--tasks 2]`.

Samples of `--tasks` tasks a job are made for the last hours, and rolled by the Task Service's own calls. Jobs have a
tide over the day with noise of a tenth, and a backlog in a quarter of the minutes; half of them keep state. Loads
change every ten minutes.

- `bytes_per_job_day`: of `job_metrics`, with its indexes. `gb_of_100000_jobs`: of 100,000 jobs in 14 days.
- `bytes_per_sample`: of `task_metrics`. `gb_of_samples`: of 100,000 tasks in the 2 days that they are kept.
- `roll_s`: an hour of all tasks, pages one after the other. `longest_page_s`: the longest page.
- `read_ms`: all minutes of a job, as the Job Service reads them; `read_one_ms`: of one metric.

The server is the embedded Postgres of the tests, without safety against power loss.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Engine, text

from penstock.control import logs
from penstock.local.postgres import EmbeddedPostgres
from penstock.model.job_metrics import HOUR, JOB_METRICS, METRICS_BY_NAME
from penstock.store.engine import connect, snapshot, transaction
from penstock.store.job_minutes import read_job_minutes
from penstock.store.migrate import upgrade
from services.task_service.store.hours import HourStore
from tests.bench.report import finish, say

_JOBS = """
    INSERT INTO running (job, config, revision, generation, restarts, commit_number, leader_epoch)
    SELECT 'job-' || to_char(number, 'FM000000'), jsonb_build_object('task_count', CAST(:tasks AS integer)),
        1, 1, 0, 1, 1
    FROM generate_series(1, :jobs) AS number
"""
_HOUR = """
    INSERT INTO task_metrics (job, index, minute, input_rows_per_second, processed_rows_per_second,
        input_bytes_per_second, busy_share, batch_seconds, backlog_records, lag_seconds, state_rows, state_memory_bytes,
        late_rows_per_second, cpu_cores, memory_bytes, running, crashes, task_count, key_group_backlog_records,
        errors_out_of_memory, errors_configuration, errors_fenced, errors_host, errors_other)
    SELECT job, index, minute, rate, 3 * rate * (0.9 + 0.2 * random()), rate * (200 + 20 * random()),
        round(CAST(0.3 * tide + 0.05 * random() AS numeric), 3), 0.8 + 0.4 * random(), backlog,
        coalesce(backlog / (3 * rate), 0), CASE WHEN keeps THEN CAST(1e6 * tide + 1e4 * random() AS bigint) END,
        CASE WHEN keeps THEN CAST(1e8 * tide + 1e6 * random() AS bigint) END, CASE WHEN keeps THEN 0 END,
        0.3 + 0.01 * (report % 13), 4e8 + 1e6 * (report % 7), true, 0, :tasks, backlog / 3, 0, 0, 0, 0, 0
    FROM (
        SELECT running.job, index, minute, tide, CAST(extract(epoch FROM minute) AS bigint) / 600 AS report,
            500 * tide * (0.9 + 0.2 * random()) AS rate,
            CASE WHEN random() < 0.25 THEN CAST(2000 * random() AS bigint) ELSE 0 END AS backlog,
            hashtext(running.job) % 2 = 0 AS keeps
        FROM generate_series(CAST(:hour AS timestamptz), CAST(:hour AS timestamptz) + interval '59 minutes',
                interval '1 minute') AS minute
            CROSS JOIN LATERAL (SELECT 1.2 + sin(extract(epoch FROM minute) / 13751) AS tide) AS of_day
            CROSS JOIN running CROSS JOIN generate_series(0, :tasks - 1) AS index
        ORDER BY minute, job, index
    ) AS sampled
"""
_SAMPLES_SIZE = "SELECT sum(pg_total_relation_size(part::regclass)) FROM sample_parts"
_HOURS_SIZE = "SELECT sum(pg_total_relation_size(part::regclass)) FROM job_metrics_parts"
_BOTH_KEPT = 14


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--tasks", type=int, default=2)
    asked = parser.parse_args()
    logs.configure("bench", level="ERROR")
    finish(measure(asked.jobs, asked.hours, asked.tasks))


def measure(jobs: int, hours: int, tasks: int) -> dict[str, float]:
    """The figures of so many jobs, each with so many tasks, over so many hours."""
    until = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - HOUR
    since = until - hours * HOUR
    with _store() as engine:
        _do(engine, _JOBS, jobs=jobs, tasks=tasks)
        for number in range(hours):
            _do(engine, _HOUR, hour=since + number * HOUR, tasks=tasks)
        _do(engine, "UPDATE rolled SET hour = :hour", hour=since)
        pages = _roll(engine, until)
        samples = jobs * tasks * hours * 60
        job_day = _size(engine, _HOURS_SIZE) / (jobs * hours / 24)
        sample = _size(engine, _SAMPLES_SIZE) / samples
        read_s = _read(engine, since, until, len(JOB_METRICS))
        read_one_s = _read(engine, since, until, 1)
    say(f"{samples} samples of {jobs * tasks} tasks rolled in {len(pages)} pages")
    return {
        "jobs": jobs,
        "tasks": jobs * tasks,
        "hours": hours,
        "bytes_per_job_day": job_day,
        "gb_of_100000_jobs": job_day * _BOTH_KEPT * 100_000 / 1e9,
        "bytes_per_sample": sample,
        "gb_of_samples": sample * 2 * 1440 * 100_000 / 1e9,
        "roll_s": sum(pages) / hours,
        "longest_page_s": max(pages),
        "read_ms": read_s * 1000,
        "read_one_ms": read_one_s * 1000,
    }


def _roll(engine: Engine, until: datetime) -> list[float]:
    """Seconds of each page of all hours before `until`."""
    pages, store, begun = [], HourStore(engine), time.monotonic()
    while (rolled := store.roll()) is not None and rolled.hour < until:
        pages.append(time.monotonic() - begun)
        begun = time.monotonic()
    return pages


def _read(engine: Engine, since: datetime, until: datetime, metrics: int) -> float:
    """Seconds for all minutes of one job."""
    asked = list(METRICS_BY_NAME.values())[:metrics]
    begun = time.monotonic()
    with snapshot(engine) as connection:
        found = read_job_minutes(connection, "job-000001", since, until + timedelta(minutes=1), asked)
    assert found.values["input_rows_per_second"][0] is not None, "a minute that was measured is not known"
    return time.monotonic() - begun


def _do(engine: Engine, statement: str, **values: object) -> None:
    with transaction(engine) as connection:
        connection.execute(text(statement), values)


def _size(engine: Engine, statement: str) -> float:
    with transaction(engine) as connection:
        return float(connection.execute(text(statement)).scalar_one())


@contextmanager
def _store() -> Iterator[Engine]:
    with (
        tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as folder,
        EmbeddedPostgres(Path(folder) / "postgres", durable=False) as server,
    ):
        upgrade(server.url)
        engine = connect(server.url, connections=1)
        yield engine
        engine.dispose()


if __name__ == "__main__":
    main()
