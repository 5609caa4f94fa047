"""A cell at its full size: `python -m tests.bench.fleet [--containers 3000] [--tasks 100000]`.

Simulated containers (`tests.support.bench.fleet`: the real clients, loops and reports, no Spark) against one real Task
Service, one real Shard Manager and one real Postgres, each a process. All tasks start; then the cell is at rest for
`--rest-seconds`. Then each job gets another package, which a real State Syncer process releases.

- `rest_mb_per_min`: bytes both ways for each container. `container_cpu_ms_per_min`: its CPU, of the bench's process.
- `rest_cpu_share`: the cores that both services and Postgres use together.
- `release_minutes`: until all jobs have the package; `release_mb_per_min` and `release_cpu_share` are of that time.
- `heartbeat_p99_ms`: of all heartbeats since the rest began, by the clients.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from sqlalchemy import Engine, text

from penstock.control import logs
from penstock.control.process import start_child, stop_group, wait_until
from penstock.local.ports import free_port
from penstock.local.postgres import EmbeddedPostgres
from penstock.store.cluster import ask_for_shards
from penstock.store.engine import connect, transaction
from penstock.store.migrate import upgrade
from tests.bench.report import finish, let_pass, percentile, say
from tests.support.bench.fleet import Fleet, cpu_seconds, shared_results
from tests.support.identity import VARIABLE, session_folder
from tests.support.store.jobs import make_layer, write_layers

MB = 1e6
POLL_SECONDS = 0.5


class Usage(NamedTuple):
    """What was used until a moment."""

    at: float
    bytes: int
    services: float
    here: float


class Cell(NamedTuple):
    """The processes of a cell by name, and its store."""

    engine: Engine
    pids: dict[str, int]
    urls: tuple[str, str]
    folder: Path
    environment: dict[str, str]


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--containers", type=int, default=3000)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--tasks-per-job", type=int, default=10)
    parser.add_argument("--rest-seconds", type=float, default=60.0)
    parser.add_argument("--release-limit", type=float, default=900.0, help="seconds after which a release is given up")
    asked = parser.parse_args()
    logs.configure("bench", level="ERROR")
    jobs = asked.tasks // asked.tasks_per_job
    finish(
        measure(
            asked.containers,
            jobs,
            asked.tasks_per_job,
            rest_seconds=asked.rest_seconds,
            release_limit=asked.release_limit,
        )
    )


def measure(
    containers: int,
    jobs: int,
    tasks_per_job: int,
    *,
    rest_seconds: float,
    release_limit: float,
    spread_seconds: float = 10.0,
    healthy_seconds: float = 15.0,
    blast_share: float = 0.1,
) -> dict[str, float | None]:
    """The figures. `release_minutes` is None when the release has not ended after `release_limit` seconds."""
    tasks = jobs * tasks_per_job
    with ExitStack() as stack:
        stack.enter_context(shared_results())
        cell = stack.enter_context(_cell(tasks, healthy_seconds, blast_share))
        syncer = stack.enter_context(ExitStack())
        syncer.enter_context(_process(cell, "state_syncer"))
        _write(cell.engine, jobs, tasks_per_job, "1.0.0")
        _await_synced(cell.engine, jobs, "1.0.0", 600.0)
        fleet = Fleet(containers, cell.urls)
        stack.enter_context(fleet.at_work(spread_seconds))
        began = time.monotonic()
        wait_until(lambda: fleet.running() == tasks, 600.0, "all tasks to run", poll_s=POLL_SECONDS)
        say(f"{tasks} tasks of {jobs} jobs run on {containers} containers after {time.monotonic() - began:.1f} s")
        let_pass(2 * fleet.members[0].settings.heartbeat_seconds if rest_seconds > 20 else 1.0)
        fleet.heartbeats.clear()
        rest = _between(cell, fleet, lambda: let_pass(rest_seconds))
        wait_until(lambda: len(fleet.heartbeats) >= containers, 60.0, "a heartbeat of each", poll_s=POLL_SECONDS)
        say(f"at rest, by the minute: {_figures(containers, tasks, rest, None)}")
        say(f"heartbeats, p99: {1000 * percentile(fleet.heartbeats, 0.99):.1f} ms")
        _write(cell.engine, jobs, tasks_per_job, "2.0.0")
        released = True

        def release() -> None:
            nonlocal released
            released = _await_synced(cell.engine, jobs, "2.0.0", release_limit, fails=False)

        during = _between(cell, fleet, release)
        say(f"{fleet.failures} calls failed, {len(fleet.heartbeats)} heartbeats")
        return _figures(containers, tasks, rest, during if released else None) | {
            "heartbeat_p99_ms": 1000 * percentile(fleet.heartbeats, 0.99),
            "failed_calls": float(fleet.failures),
        }


def _figures(
    containers: int, tasks: int, rest: tuple[Usage, Usage], release: tuple[Usage, Usage] | None
) -> dict[str, float | None]:
    mb, services, here = _per_minute(*rest)
    figures: dict[str, float | None] = {
        "containers": containers,
        "tasks": tasks,
        "rest_mb_per_min": mb / containers,
        "rest_cpu_share": services / 60,
        "container_cpu_ms_per_min": 1000 * here / containers,
        "release_minutes": None,
    }
    if release is None:
        return figures
    mb, services, _ = _per_minute(*release)
    minutes = (release[1].at - release[0].at) / 60
    return figures | {
        "release_minutes": minutes,
        "release_mb_per_min": mb / containers,
        "release_cpu_share": services / 60,
    }


def _per_minute(first: Usage, last: Usage) -> tuple[float, float, float]:
    """Megabytes, CPU seconds of the services and CPU seconds of this process."""
    minutes = (last.at - first.at) / 60
    return (
        (last.bytes - first.bytes) / MB / minutes,
        (last.services - first.services) / minutes,
        (last.here - first.here) / minutes,
    )


def _between(cell: Cell, fleet: Fleet, work: Any) -> tuple[Usage, Usage]:
    first = _usage(cell, fleet)
    work()
    return first, _usage(cell, fleet)


def _usage(cell: Cell, fleet: Fleet) -> Usage:
    """The State Syncer's processes and the bench's statements are in none of it but Postgres's part."""
    used = {name: cpu_seconds(pid) for name, pid in cell.pids.items() if name != "state_syncer"}
    say(", ".join(f"{name} {seconds:.1f} s" for name, seconds in used.items()))
    return Usage(time.monotonic(), fleet.traffic.bytes, sum(used.values()), time.process_time())


@contextmanager
def _cell(tasks: int, healthy_seconds: float, blast_share: float) -> Iterator[Cell]:
    with (
        tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as name,
        EmbeddedPostgres(Path(name) / "postgres", durable=False) as server,
    ):
        upgrade(server.url)
        engine = connect(server.url)
        with transaction(engine) as connection:
            ask_for_shards(connection, max(64, tasks))
        environment = {
            "PENSTOCK_DATABASE_URL": server.url,
            VARIABLE: str(session_folder()),
            "PENSTOCK_STATE_SYNCER_HEALTHY_SECONDS": f"{healthy_seconds:g}",
            "PENSTOCK_STATE_SYNCER_BLAST_SHARE": f"{blast_share:g}",
            "PENSTOCK_LOG_LEVEL": "WARNING",
        }
        pid = int((Path(name) / "postgres" / "postmaster.pid").read_text().split()[0])
        cell = Cell(engine, {"postgres": pid}, ("", ""), Path(name), environment)
        with _process(cell, "task_service") as specs_url, _process(cell, "shard_manager") as manager_url:
            yield cell._replace(urls=(specs_url, manager_url))
        engine.dispose()


@contextmanager
def _process(cell: Cell, service: str) -> Iterator[str]:
    """One service as a process of its own; its address, once it is ready."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    environment = {**os.environ, **cell.environment, "PENSTOCK_PORT": str(port)}
    log = cell.folder / f"{service}.log"
    child = start_child([sys.executable, "-m", f"services.{service}"], log_path=log, env=environment)
    cell.pids[service] = child.pid
    try:
        wait_until(lambda: _answers(f"{url}/readyz"), 60.0, f"{service} to be ready")
        yield url
    finally:
        stop_group(child, 10.0)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False, timeout=5.0).is_success
    except httpx.TransportError:
        return False


def _write(engine: Engine, jobs: int, tasks_per_job: int, version: str) -> None:
    """All jobs with a package, as the Job Service writes them."""
    package = {"name": "flights", "version": version}
    inputs = {"events": {"key_groups": 64}}
    layer = make_layer(task_count=tasks_per_job, inputs=inputs, package=package)
    write_layers(engine, layer, (f"pipeline-{number:06d}" for number in range(jobs)))


def _await_synced(engine: Engine, jobs: int, version: str, seconds: float, *, fails: bool = True) -> bool:
    statement = text(
        """
        SELECT count(*) FROM running r JOIN sync_state s ON s.job = r.job
        WHERE r.config->'package'->>'version' = :version AND r.rollout IS NULL AND s.state = 'synced'
        """
    )

    def is_done() -> bool:
        with transaction(engine) as connection:
            return bool(connection.execute(statement, {"version": version}).scalar_one() == jobs)

    try:
        return wait_until(is_done, seconds, f"{jobs} jobs to run version {version}", poll_s=POLL_SECONDS)
    except TimeoutError:
        if fails:
            raise
        return False


if __name__ == "__main__":
    main()
