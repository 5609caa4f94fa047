"""What reports cost the store: `python -m tests.bench.reports [--containers 300] [--tasks 33]`.

Each container has `--tasks` tasks whose measurements change all the time, one task in 500 changes its state a report.
`MINUTES` minutes of reports, one every 2 s, are made at once by the Task Manager's own `ReportLog`, and stored by the
Task Service's own calls, without HTTP:

- `rows_per_s`, `cpu_s_per_min`: rows written in `tasks` and `reports` a second, CPU seconds of Postgres a minute, with
  changes. `full_*`: the same when each report is full, as a Task Manager of the release before sends it.
- `bytes_per_sample`: of `task_metrics`, with its indexes. `gb_per_day`: of 100,000 tasks. `sample_s`: samples of all
  tasks.
- `renew_ms`: the leases of all containers, renewed by one call.

The server is the embedded Postgres of the tests, without safety against power loss.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import psutil
from sqlalchemy import Engine, text

from penstock.control import logs
from penstock.local.postgres import EmbeddedPostgres
from penstock.model.reports import TaskProgress, TaskReport, TaskReportBatch, TaskState
from penstock.store.engine import connect, transaction
from penstock.store.migrate import upgrade
from penstock.tasks.ownership import Member
from penstock.wire.cluster import LeaseRequest
from services.shard_manager.store.members import register
from services.task_manager.report_log import Outgoing, ReportLog
from services.task_manager.settings import TaskManagerSettings
from services.task_service.store.leases import renew_all
from services.task_service.store.reports import save_changes, save_report
from services.task_service.store.samples import SampleStore
from tests.bench.report import finish, say

MINUTES = 1
SAMPLED_MINUTES = 10
REPORT_SECONDS = 2.0
CHANGED_SHARE = 1 / 500
_WRITTEN = "SELECT sum(n_tup_ins + n_tup_upd) FROM pg_stat_user_tables WHERE relname IN ('tasks', 'reports')"
_EARLIER = f"""
    INSERT INTO task_metrics (job, index, minute, input_rows_per_second, processed_rows_per_second, backlog_records,
            lag_seconds, state_rows, state_memory_bytes, batch_seconds, input_bytes_per_second, backlog_bytes)
        SELECT job, index, minute - make_interval(mins => ago), input_rows_per_second, processed_rows_per_second,
            backlog_records, lag_seconds, state_rows, state_memory_bytes, batch_seconds, input_bytes_per_second,
            backlog_bytes
        FROM generate_series(1, {SAMPLED_MINUTES - 1}) ago, task_metrics ORDER BY ago DESC, job, index
"""
_SIZE = "SELECT sum(pg_total_relation_size(part::regclass)) FROM sample_parts"


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--containers", type=int, default=300)
    parser.add_argument("--tasks", type=int, default=33)
    asked = parser.parse_args()
    logs.configure("bench", level="ERROR")
    finish(measure(asked.containers, asked.tasks))


def measure(containers: int, tasks: int) -> dict[str, float]:
    """The figures of so many containers, each with so many tasks."""
    with _store() as (engine, server):
        fleet = Fleet(engine, containers, tasks)
        for number in range(containers):
            fleet.report(number, 0.0)
        changes = _cost(fleet, server, full=False)
        full = _cost(fleet, server, full=True)
        begun = time.monotonic()
        sampled = SampleStore(engine).take() or 0
        sample_s = time.monotonic() - begun
        bytes_per_sample = _sample_bytes(engine)
        requests = [LeaseRequest(container=f"c{number}", incarnation="1") for number in range(containers)]
        begun = time.monotonic()
        renewed = sum(each.known for each in renew_all(engine, requests))
        renew_ms = (time.monotonic() - begun) * 1000
    say(f"{sampled} samples of {containers * tasks} tasks, {renewed} leases of {containers} containers")
    return {
        "containers": containers,
        "tasks": containers * tasks,
        "sampled": sampled,
        "renewed": renewed,
        "rows_per_s": changes[0],
        "cpu_s_per_min": changes[1],
        "full_rows_per_s": full[0],
        "full_cpu_s_per_min": full[1],
        "sample_s": sample_s,
        "bytes_per_sample": bytes_per_sample,
        "gb_per_day": bytes_per_sample * 100_000 * 1440 / 1e9,
        "renew_ms": renew_ms,
    }


class Fleet:
    """Containers whose tasks run; `report` has one report what its tasks are by then."""

    def __init__(self, engine: Engine, containers: int, tasks: int) -> None:
        self.engine = engine
        self.containers = containers
        self._tasks = tasks
        self._random = Random(1)
        settings = TaskManagerSettings()
        self._logs = [
            ReportLog(
                quiet_seconds=0.0,
                figures_seconds=settings.report_figures_seconds,
                full_seconds=settings.full_report_seconds,
                random=self._random,
            )
            for _ in range(containers)
        ]
        with transaction(engine) as connection:
            for number in range(containers):
                member = Member(f"c{number}", "1", f"http://c{number}", "local", 1.0, 1, 1)
                register(connection, member, empty=True)

    def report(self, number: int, now: float, *, full: bool = False) -> None:
        """One report of a container, stored."""
        log = self._logs[number]
        if full:
            log.refused()
        sent = log.next(self._batch(number), now)
        assert sent is not None, "a report is always due here"
        self._store(sent)
        log.stored(sent, now)

    def _store(self, sent: Outgoing) -> None:
        with transaction(self.engine) as connection:
            if sent.changes is None:
                save_report(connection, sent.batch, sent.number)
            else:
                assert save_changes(connection, sent.changes)

    def _batch(self, number: int) -> TaskReportBatch:
        tasks = tuple(self._task(number, index) for index in range(self._tasks))
        return TaskReportBatch(container=f"c{number}", incarnation="1", commit_number=1, version=1, tasks=tasks)

    def _task(self, number: int, index: int) -> TaskReport:
        random = self._random
        progress = TaskProgress(
            batch_id=random.randrange(10**6),
            batch_seconds=random.random(),
            input_rows=1 + random.randrange(1000),
            input_rows_per_second=random.random() * 1000,
            processed_rows_per_second=1 + random.random() * 1000,
            input_bytes_per_second=random.random() * 1e6,
            backlog_records=random.randrange(1000),
            backlog_bytes=random.randrange(10**6),
            state_rows=random.randrange(10**6),
            state_memory_bytes=random.randrange(10**9),
            offsets={"topic": {str(each): random.randrange(10**9) for each in range(4)}},
        )
        changed = random.random() < CHANGED_SHARE
        return TaskReport(
            job=f"job-{number:05}",
            index=index,
            state=TaskState.STOPPING if changed else TaskState.RUNNING,
            revision=1,
            generation=1,
            restarts=0,
            epoch=1,
            progress=progress,
        )


def _cost(fleet: Fleet, server: psutil.Process, *, full: bool) -> tuple[float, float]:
    """Rows written a second, and CPU seconds of the server a minute."""
    rounds = int(MINUTES * 60 / REPORT_SECONDS)
    rows, cpu = _written(fleet.engine), _cpu_seconds(server)
    for step in range(rounds):
        for number in range(fleet.containers):
            fleet.report(number, (step + 1) * REPORT_SECONDS, full=full)
    rows, cpu = _written(fleet.engine) - rows, _cpu_seconds(server) - cpu
    return rows / (MINUTES * 60), cpu / MINUTES


def _written(engine: Engine) -> int:
    with engine.connect() as connection:
        connection.execute(text("SELECT pg_stat_force_next_flush()"))
        connection.commit()
        return int(connection.execute(text(_WRITTEN)).scalar_one() or 0)


def _cpu_seconds(server: psutil.Process) -> float:
    """Of all its processes, also those that have ended."""
    own, running = server.cpu_times(), [each.cpu_times() for each in server.children()]
    return own.user + own.system + own.children_user + own.children_system + sum(t.user + t.system for t in running)


def _sample_bytes(engine: Engine) -> float:
    with transaction(engine) as connection:
        connection.execute(text(_EARLIER))
        rows = connection.execute(text("SELECT count(*) FROM task_metrics")).scalar_one()
        return float(connection.execute(text(_SIZE)).scalar_one()) / rows


@contextmanager
def _store() -> Iterator[tuple[Engine, psutil.Process]]:
    with (
        tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as folder,
        EmbeddedPostgres(Path(folder) / "postgres", durable=False) as server,
    ):
        upgrade(server.url)
        engine = connect(server.url, connections=1)
        pid = int((Path(folder) / "postgres" / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
        yield engine, psutil.Process(pid)
        engine.dispose()


if __name__ == "__main__":
    main()
