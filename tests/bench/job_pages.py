"""Pages of `GET /v1/jobs` among many jobs: `python -m tests.bench.job_pages [--jobs 100000]`.

Each job has a running configuration and `TASKS` tasks that containers report. One job in a thousand has a task that
crashes again and again, one in ten has a backlog. What a request does in the store and the decision about health are
timed, without HTTP:

- `page_ms`: a page of 100 jobs, in the middle of all; the median of `ROUNDS` pages.
- `crashing_ms`: a page of 100 (`crashing` are found) of the filter `health=crashing`.
- `lagging_ms`: a page of the filter `health=lagging`, which no job is: it reads 5,000 jobs.
- `all_s`: all jobs, page by page, 1,000 a page.
- `alerts_ms`: one look of the alerts about health.
- `outage_*`: the same once a task of every job crashes again and again, the worst of `LOOKS` looks; with the statements
  of that look, which do not grow with the jobs.

The server is the embedded Postgres of the tests, without safety against power loss.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine, event, text

from penstock.control import logs
from penstock.local.postgres import EmbeddedPostgres
from penstock.model.health import Health
from penstock.store import leases
from penstock.store.engine import connect, snapshot, transaction
from penstock.store.migrate import upgrade
from penstock.store.running import STATE_SYNCER
from services.job_service.store.jobs import JobsPage, page
from services.state_syncer.health.reconciler import HealthAlerts
from tests.bench.report import finish, say

ROUNDS = 9
LOOKS = 5
TASKS = 2
_FILL = (
    "INSERT INTO jobs (name, owner, revision) SELECT 'job-' || lpad(n::text, 7, '0'), 'me', n"
    " FROM generate_series(1, :jobs) AS n",
    """
    INSERT INTO running (job, config, revision, generation, restarts, commit_number, leader_epoch)
    SELECT name, jsonb_build_object('task_count', CAST(:tasks AS int), 'desired_state', 'running',
        'query', jsonb_build_object('sql', repeat('SELECT 1 ', 30))), revision, 1, 0, 1, 1 FROM jobs
    """,
    "INSERT INTO sync_state (job, state, revision) SELECT name, 'synced', revision FROM jobs",
    """
    INSERT INTO tasks (job, index, container, state, revision, generation, restarts, epoch, progress)
    SELECT name, index, 'c' || revision % 100, 'running', revision, 1, 0, 1, jsonb_build_object('batch_id', 5,
        'backlog_records', 10, 'processed_rows_per_second', 50.0, 'input_rows', 10,
        'offsets', jsonb_build_object('topic', jsonb_build_object('0', 123456, '1', 123456, '2', 123456)))
    FROM jobs, generate_series(0, :tasks - 1) AS index
    """,
    """
    INSERT INTO containers (name, incarnation, url, region, cpu_cores, memory_bytes, disk_bytes, state)
    SELECT 'c' || n, 'i', 'u', 'r', 1, 1, 1, 'live' FROM generate_series(0, 99) AS n
    """,
    """
    INSERT INTO task_metrics (job, index, minute, backlog_records, processed_rows_per_second, lag_seconds)
    SELECT job, index, date_trunc('minute', now()) - make_interval(mins => ago), 10, 50.0,
        CASE WHEN revision % 10 = 0 THEN 0.2 ELSE 0 END
    FROM tasks, generate_series(0, 3) AS ago
    """,
    """
    INSERT INTO task_crashes (job, index, crashed_at, newest_at, revision, error)
    SELECT name, 0, ARRAY[now(), now(), now()], now(), revision, 'ValueError: 3 is no delay'
    FROM jobs WHERE revision % 1000 = 0
    """,
)
_OUTAGE = """
    INSERT INTO task_crashes (job, index, crashed_at, newest_at, revision, error)
    SELECT name, 0, ARRAY[now(), now(), now()], now(), revision, 'KafkaException: no broker answers' FROM jobs
    ON CONFLICT DO NOTHING
"""
_HEARD = """
    INSERT INTO reports (container, incarnation, commit_number, version) SELECT name, 'i', 1, 1 FROM containers
    ON CONFLICT (container) DO UPDATE SET reported_at = now() + interval '1 hour'
"""


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100_000)
    count = parser.parse_args().jobs
    logs.configure("bench", level="ERROR")
    finish(measure(count))


def measure(jobs: int) -> dict[str, float]:
    """The figures among so many jobs."""
    with _store(jobs) as engine:
        middle = f"job-{jobs // 2:07}"
        pages = [_timed(lambda: _page(engine, limit=100, after=middle)) for _ in range(ROUNDS)]
        crashing = [_timed(lambda: _page(engine, limit=100, health=Health.CRASHING)) for _ in range(3)]
        lagging = _timed(lambda: _page(engine, limit=100, health=Health.LAGGING))
        crashing_jobs = len(_page(engine, limit=100, health=Health.CRASHING).jobs)
        found = 0

        def read_all() -> None:
            nonlocal found
            after: str | None = ""
            while after is not None:
                read = _page(engine, limit=1000, after=after)
                found, after = found + len(read.jobs), read.last

        all_s = _timed(read_all)
        looks = _Looks(engine)
        alerts_s, _ = looks.look()
        with transaction(engine) as connection:
            connection.execute(text(_OUTAGE))
        outage_s, statements = max(looks.look() for _ in range(LOOKS))
    say(f"{found} of {jobs} jobs were read")
    return {
        "jobs": found,
        "page_ms": statistics.median(pages) * 1000,
        "crashing": crashing_jobs,
        "crashing_ms": statistics.median(crashing) * 1000,
        "lagging_ms": lagging * 1000,
        "all_s": all_s,
        "alerts_ms": alerts_s * 1000,
        "outage_ms": outage_s * 1000,
        "outage_statements": statements,
    }


def _page(engine: Engine, *, limit: int, after: str = "", health: Health | None = None) -> JobsPage:
    with snapshot(engine) as connection:
        return page(connection, limit=limit, after=after, health=health)


class _Looks:
    """Looks of the alerts about health, one after the other. A look is answered with its seconds and statements."""

    def __init__(self, engine: Engine) -> None:
        with transaction(engine) as connection:
            epoch = leases.take(connection, STATE_SYNCER, "bench", url="", seconds=600.0)
        assert epoch is not None
        self._epoch, self._now, self._statements = epoch, 0.0, 0
        self._alerts = HealthAlerts(engine, lambda: self._now)
        event.listen(engine, "before_cursor_execute", self._count)

    def look(self) -> tuple[float, int]:
        self._now, self._statements = self._now + 60.0, 0
        seconds = _timed(lambda: self._alerts.round(self._epoch))
        return seconds, self._statements

    def _count(self, *_: object) -> None:
        self._statements += 1


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@contextmanager
def _store(jobs: int) -> Iterator[Engine]:
    with (
        tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as folder,
        EmbeddedPostgres(Path(folder) / "postgres", durable=False) as server,
    ):
        upgrade(server.url)
        engine = connect(server.url)
        for statement in (*_FILL, _HEARD, _HEARD):
            with transaction(engine) as connection:
                connection.execute(text(statement), {"jobs": jobs, "tasks": TASKS})
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("VACUUM ANALYZE")
        yield engine
        engine.dispose()


if __name__ == "__main__":
    main()
