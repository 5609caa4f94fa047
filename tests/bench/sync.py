"""A package release over all jobs, through the State Syncer: `python -m tests.bench.sync [--jobs 100000]`.

All jobs are written as the Job Service writes them (validated, merged, with history), in batches; a round commits them
for the first time (`first_s`). Then the provisioner's layer of every job gets a new package version, and rounds of the
real State Syncer are timed, with a budget that lets all jobs be disrupted at once: `changed_s` begins the rollout of
every job, commit included (jobs of one task: the first wave is the last); `settled_s` finds every task healthy, as a
container of the bench's own reports it; `unchanged_s` finds nothing to do (the median of five). Beside them in the same
run `floor_s`: one bare UPDATE that gives as many rows of the same size, in a copy of the running table with its
indexes, their new configuration.

The server is the embedded Postgres of the tests, without safety against power loss; `peak_rss_mb` is this process's.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, text

from penstock.control import logs
from penstock.control.clock import SystemClock
from penstock.local.postgres import EmbeddedPostgres
from penstock.store import leases
from penstock.store.engine import connect, transaction
from penstock.store.migrate import upgrade
from penstock.store.running import STATE_SYNCER
from services.job_service.writer import Writer
from services.job_service.writes import Precondition, Verb, Write
from services.state_syncer.budget import Budget
from services.state_syncer.loop import StateSyncer
from services.state_syncer.store import PostgresSyncStore
from tests.bench.report import finish, say
from tests.support.job_configs import job

BATCH = 500
UNCHANGED_ROUNDS = 5
_KIB_PER_MB = 1e6 / 1024
_SQL = """SELECT dest, carrier, window(time, '10 minutes') AS span, count(*) AS flights, avg(delay) AS delay
FROM flights WHERE delay IS NOT NULL GROUP BY dest, carrier, window(time, '10 minutes')"""
_FLOOR = """
    CREATE TABLE floor (LIKE running INCLUDING ALL);
    INSERT INTO floor SELECT * FROM running ORDER BY job;
"""
_BARE = """
    UPDATE floor SET config = e.config, revision = e.revision, commit_number = floor.commit_number + 1,
        committed_at = now()
    FROM expected_configs e WHERE e.job = floor.job
"""
_HEALTHY = """
    INSERT INTO containers (name, incarnation, url, region, cpu_cores, memory_bytes, disk_bytes, state)
    VALUES ('a', 'life-1', 'http://x', 'r', 1, 1, 1, 'live');
    INSERT INTO assignment (shard, container, epoch) SELECT n, 'a', 1 FROM generate_series(0, 1023) AS n;
    INSERT INTO reports (container, incarnation, commit_number, version) VALUES ('a', 'life-1', 2, 1);
    INSERT INTO tasks (job, index, container, state, revision, generation, restarts, epoch, progress)
    SELECT job, 0, 'a', 'running', revision, generation, restarts, 1, '{"batch_id": 1, "input_rows": 5}' FROM running;
"""


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100_000)
    count = parser.parse_args().jobs
    logs.configure("bench", level="ERROR")
    with _store() as engine:
        finish(_measure(engine, count))


def _measure(engine: Engine, count: int) -> dict[str, float]:
    syncer = StateSyncer(
        PostgresSyncStore(engine), lambda: datetime.now(UTC), await_seconds=1.0, budget=Budget(1.0, count)
    )
    epoch = _lead(engine)
    syncer.round(epoch)
    written_s = _timed(lambda: _write(engine, map(_new, range(count))))
    first_s = _timed(lambda: syncer.round(epoch))
    say(f"{count} new jobs: written in {written_s:.1f} s, their first round took {first_s:.2f} s")
    released_s = _timed(lambda: _write(engine, (_release(number, 2) for number in range(count))))
    say(f"the release: written in {released_s:.1f} s")
    _vacuum(engine)
    _execute(engine, _FLOOR)
    _vacuum(engine)
    changed_s = _timed(lambda: syncer.round(epoch))
    _require_all_run(engine, count)
    floor_s = _timed(lambda: _execute(engine, _BARE))
    _execute(engine, _HEALTHY)
    settled_s = _timed(lambda: syncer.round(epoch))
    _require_none_rolls(engine)
    unchanged = [_timed(lambda: syncer.round(epoch)) for _ in range(UNCHANGED_ROUNDS)]
    _measure_waiting(engine, epoch, count)
    return {
        "first_s": first_s,
        "changed_s": changed_s,
        "settled_s": settled_s,
        "unchanged_s": statistics.median(unchanged),
        "floor_s": floor_s,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB_PER_MB,
    }


@contextmanager
def _store() -> Iterator[Engine]:
    with (
        tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as folder,
        EmbeddedPostgres(Path(folder) / "postgres", durable=False) as server,
    ):
        upgrade(server.url)
        engine = connect(server.url)
        yield engine
        engine.dispose()


def _lead(engine: Engine) -> int:
    with transaction(engine) as connection:
        epoch = leases.take(connection, STATE_SYNCER, "bench", url="", seconds=3600.0)
    if epoch is None:
        raise RuntimeError("somebody else leads")
    return epoch


def _new(number: int) -> Write:
    labels = {"team": f"team-{number % 50}", "tier": "gold"}
    config = job({"query": {"sql": _SQL}, "inputs": {"flights": {"topic": f"topic-{number}"}}, "labels": labels})
    return Write(Verb.PUT_JOB, _name(number), "bench", config=config)


def _release(number: int, version: int) -> Write:
    config: dict[str, Any] = {"package": {"name": "flights", "version": f"{version}.0.0"}}
    precondition = Precondition(if_match=version - 2)
    return Write(Verb.PUT, _name(number), "bench", "provisioner", config, precondition=precondition)


def _measure_waiting(engine: Engine, epoch: int, count: int) -> None:
    """Another release, in the budget that a cell has unless it is set up otherwise."""
    syncer = StateSyncer(PostgresSyncStore(engine), lambda: datetime.now(UTC), await_seconds=1.0)
    _write(engine, (_release(number, 3) for number in range(count)))
    _vacuum(engine)
    begun_s, full_s = (_timed(lambda: syncer.round(epoch)) for _ in range(2))
    share = "UPDATE tasks t SET revision = r.revision FROM running r WHERE r.job = t.job AND t.revision < r.revision"
    _execute(engine, share)
    next_s, again_s = (_timed(lambda: syncer.round(epoch)) for _ in range(2))
    say(f"the default budget: {begun_s:.2f} s begin, and all others wait; {full_s:.2f} s while it is full")
    say(f"those are healthy: {next_s:.2f} s settle them and begin as many; {again_s:.2f} s while it is full again")


def _name(number: int) -> str:
    return f"pipeline-{number:06d}"


def _write(engine: Engine, writes: Iterator[Write]) -> None:
    """As `POST /v1/batches` does. Raises RuntimeError when one is refused."""
    writer = Writer(engine, SystemClock())
    while batch := list(islice(writes, BATCH)):
        with transaction(engine) as connection:
            outcomes = writer.many(connection, batch)
        refused = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        if refused:
            raise RuntimeError(f"refused: {refused[0]}")


def _require_all_run(engine: Engine, count: int) -> None:
    released = "SELECT count(*) FROM running r JOIN jobs j ON j.name = r.job AND j.revision = r.revision"
    statement = f"{released} WHERE r.config->'package'->>'version' = '2.0.0' AND r.commit_number = 2"
    with transaction(engine) as connection:
        found = connection.execute(text(statement)).scalar_one()
    if found != count:
        raise RuntimeError(f"{found} of {count} jobs run the release")


def _require_none_rolls(engine: Engine) -> None:
    with transaction(engine) as connection:
        left = connection.execute(text("SELECT count(*) FROM sync_state WHERE state <> 'synced'")).scalar_one()
    if left:
        raise RuntimeError(f"{left} jobs are not settled")


def _execute(engine: Engine, statements: str) -> None:
    with transaction(engine) as connection:
        connection.exec_driver_sql(statements)


def _vacuum(engine: Engine) -> None:
    """What autovacuum does in the hours between two releases."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM ANALYZE")


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
