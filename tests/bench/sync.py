"""Changes of all jobs, through the State Syncer: `python -m tests.bench.sync [--jobs 100000]`.

All jobs are written as the Job Service writes them (validated, merged, with history), in batches; a round commits them
for the first time (`first_s`). Rounds of the real State Syncer are timed:

- `changed_s`: every job gets another trigger interval, a change of kind `restart`. Beside it `floor_s`: one bare UPDATE
  that gives as many rows of the same size, in a copy of the running table with its indexes, their new configuration.
- `unchanged_s`: nothing to do; the median of five rounds.
- `release_round_s`: every job gets another package, in the budget that a cell has unless it is set up otherwise. Each
  round ends the rollouts that began before it, and begins as many; a container of the bench's own has reported their
  tasks healthy. This is the longest such round. Each of them also commits a simple change of a job beside the release.

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
from penstock.model.jobs import Action
from penstock.store import leases
from penstock.store.engine import connect, transaction
from penstock.store.migrate import upgrade
from penstock.store.running import STATE_SYNCER
from services.job_service.writer import write_many
from services.job_service.writes import Precondition, Write
from services.state_syncer.decide.budget import Budget
from services.state_syncer.round.loop import StateSyncer
from services.state_syncer.store.port import SyncStore
from tests.bench.report import finish, say
from tests.support.config.jobs import job
from tests.support.state_syncer.containers import NobodyToAsk

BATCH = 500
UNCHANGED_ROUNDS = 5
_KIB_PER_MB = 1e6 / 1024
_SQL = """SELECT dest, carrier, window(time, '10 minutes') AS span, count(*) AS flights, avg(delay) AS delay
FROM flights WHERE delay IS NOT NULL GROUP BY dest, carrier, window(time, '10 minutes')"""
_FLOOR = """
    CREATE TABLE floor (LIKE running INCLUDING ALL EXCLUDING GENERATED);
    INSERT INTO floor SELECT * FROM running ORDER BY job;
"""
_BARE = """
    UPDATE floor SET config = e.config, revision = e.revision, commit_number = floor.commit_number + 1,
        committed_at = now()
    FROM expected_configs e WHERE e.job = floor.job
"""
_REPORT = """
    INSERT INTO containers (name, incarnation, url, region, cpu_cores, memory_bytes, disk_bytes, state)
    VALUES ('a', 'life-1', 'http://x', 'r', 1, 1, 1, 'live');
    INSERT INTO assignment (shard, container, epoch) SELECT n, 'a', 1 FROM generate_series(0, 1023) AS n;
    INSERT INTO reports (container, incarnation, commit_number, version) VALUES ('a', 'life-1', 2, 1);
    INSERT INTO tasks (job, index, container, state, revision, generation, restarts, epoch, progress)
    SELECT job, 0, 'a', 'running', revision, generation, restarts, 1, '{"batch_id": 1, "input_rows": 5}' FROM running;
"""
_REPORT_AGAIN = """
    UPDATE reports SET reported_at = now();
    UPDATE tasks t SET revision = r.revision FROM running r WHERE r.job = t.job AND t.revision < r.revision
"""
_BYSTANDER = "bystander"


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100_000)
    count = parser.parse_args().jobs
    logs.configure("bench", level="ERROR")
    finish(measure(count))


def measure(jobs: int, *, release_rounds: int = 4) -> dict[str, float]:
    """The figures of a cell of so many jobs; seconds. Raises RuntimeError when a round left something undone."""
    with _store() as engine:
        syncer = StateSyncer(SyncStore(engine), lambda: datetime.now(UTC), NobodyToAsk())
        epoch = _lead(engine)
        syncer.round(epoch)
        first_s = _first(engine, jobs, lambda: syncer.round(epoch))
        changed_s, floor_s = _change(engine, jobs, lambda: syncer.round(epoch))
        unchanged = [_timed(lambda: syncer.round(epoch)) for _ in range(UNCHANGED_ROUNDS)]
        release = _release_all(engine, jobs, lambda: syncer.round(epoch), release_rounds)
    return {
        "jobs": jobs,
        "first_s": first_s,
        "changed_s": changed_s,
        "floor_s": floor_s,
        "unchanged_s": statistics.median(unchanged),
        "release_round_s": max(release),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB_PER_MB,
    }


def _first(engine: Engine, jobs: int, make_round: Callable[[], None]) -> float:
    written_s = _timed(lambda: _write(engine, (_new(name) for name in (_BYSTANDER, *map(_name, range(jobs))))))
    first_s = _timed(make_round)
    say(f"{jobs} new jobs: written in {written_s:.1f} s, their first round took {first_s:.2f} s")
    _execute(engine, _REPORT)
    return first_s


def _change(engine: Engine, jobs: int, make_round: Callable[[], None]) -> tuple[float, float]:
    """How long the round of a restart of all jobs took, and the bare statement."""
    change = {"trigger_interval_seconds": 7}
    _write(engine, (_put(_name(number), "provisioner", 0, change) for number in range(jobs)))
    _vacuum(engine)
    _execute(engine, _FLOOR)
    _vacuum(engine)
    changed_s = _timed(make_round)
    _require(engine, jobs, "r.config->>'trigger_interval_seconds' = '7.0' AND s.state = 'synced'")
    return changed_s, _timed(lambda: _execute(engine, _BARE))


def _release_all(engine: Engine, jobs: int, make_round: Callable[[], None], rounds: int) -> list[float]:
    """How long each round of a release took that ended rollouts and began others."""
    package = {"package": {"name": "flights", "version": "2.0.0"}}
    _write(engine, (_put(_name(number), "oncall", 0, package) for number in range(jobs)))
    _vacuum(engine)
    limit = Budget().room(jobs + 1).limit
    begun_s = _timed(make_round)
    say(f"the release: {begun_s:.2f} s begin {limit} rollouts, and all others wait")
    took = [begun_s]
    for turn in range(1, rounds):
        _execute(engine, _REPORT_AGAIN)
        _write(engine, iter([_put(_BYSTANDER, "oncall", turn - 1, {"priority": turn})]))
        took.append(_timed(make_round))
        done = min(jobs, turn * limit)
        released = "r.config->'package'->>'version' = '2.0.0'"
        _require(engine, done, f"{released} AND s.state = 'synced'")
        _require(engine, min(jobs, done + limit) - done, f"{released} AND s.state = 'rolling'")
        _require(engine, 1, f"r.job = '{_BYSTANDER}' AND r.config->>'priority' = '{turn}'")
        say(f"round {turn + 1}: {took[-1]:.2f} s end {limit} rollouts and begin as many")
    return took


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


def _new(name: str) -> Write:
    labels = {"team": f"team-{hash(name) % 50}", "tier": "gold"}
    config = job({"query": {"sql": _SQL}, "inputs": {"flights": {"topic": f"topic-{name}"}}, "labels": labels})
    return Write(Action.CREATE, name, "bench", config=config)


def _put(name: str, layer: str, version: int, config: dict[str, Any]) -> Write:
    return Write(Action.PUT, name, "bench", layer, config, precondition=Precondition(if_match=version))


def _name(number: int) -> str:
    return f"pipeline-{number:06d}"


def _write(engine: Engine, writes: Iterator[Write]) -> None:
    """As `POST /v1/batches` does. Raises RuntimeError when one is refused."""
    clock = SystemClock()
    while batch := list(islice(writes, BATCH)):
        with transaction(engine) as connection:
            outcomes = write_many(connection, batch, clock, clock.monotonic(), ("/",))
        refused = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        if refused:
            raise RuntimeError(f"refused: {refused[0]}")


def _require(engine: Engine, count: int, condition: str) -> None:
    statement = f"SELECT count(*) FROM running r JOIN sync_state s ON s.job = r.job WHERE {condition}"
    with transaction(engine) as connection:
        found = connection.execute(text(statement)).scalar_one()
    if found != count:
        raise RuntimeError(f"{found} of {count} jobs are so: {condition}")


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
