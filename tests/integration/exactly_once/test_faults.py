"""Faults that leave the process alive: a broker that dies, task attempts that fail, executors that are killed."""

from __future__ import annotations

import os
import random
import signal
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from tests.support.exactly_once.holds import at_row
from tests.support.exactly_once.plan import Plan, QueryPlan
from tests.support.exactly_once.process import Logs, running, settings
from tests.support.exactly_once.rows import judge
from tests.support.exactly_once.topics import make_query, make_source
from tests.support.spark.standalone import standalone

_ROWS = 8_000
_BATCH_ROWS = 400
# In the middle of their partition's share of a batch.
_OVERTAKEN_ROW, _FAILING_ROW = 1_800, 4_200
_WAIT_SECONDS = 120.0
_RESTARTS = 20


@pytest.mark.long
def test_broker_killed_and_task_attempts_that_fail(tmp_path: Path, proof_classes: Path) -> None:
    """Tasks may be tried four times, and a failed query is started again, as Penstock would.

    1. In both forms of the sink the first attempt at a row fails when rows of its partition were sent.
    2. The broker is killed in mid-run, and started on the same folder and port.
    3. The queries come to the end of the rows, without any help; each row is there once.
    """
    with EmbeddedKafka(tmp_path / "kafka") as kafka:
        source = make_source(kafka.bootstrap, _ROWS)
        queries = tuple(_failing(kafka, tmp_path, source, scope) for scope in ("batch", "partition"))
        plan = Plan("local[4,4]", settings(tmp_path, proof_classes), kafka.bootstrap, queries)
        with running(tmp_path / "run", plan) as process:
            _await_batches(queries, 10)
            os.kill(int((tmp_path / "kafka" / "kafka.pid").read_text()), signal.SIGKILL)
            kafka.stop()
            kafka.start()
            errors = process.errors()
        assert all(len(found) <= _RESTARTS for found in errors.values()), errors
        assert all(_mark(query).exists() for query in queries)
        _assert_exact(kafka, queries)


@pytest.mark.long
def test_executors_killed_and_attempts_side_by_side(kafka: EmbeddedKafka, tmp_path: Path, proof_classes: Path) -> None:
    """Spark standalone: four executors on two workers, speculation, and the form per partition, the only one there.

    1. The first attempt at a row stays behind until Spark has made a second one of the same partition; both go on.
    2. Executor processes are killed in mid-run, three times.
    3. The query comes to the end of the rows; each row is there once.
    """
    source = make_source(kafka.bootstrap, 5 * _ROWS)
    query = make_query(kafka.bootstrap, tmp_path, source, "partition", rows_per_batch=_BATCH_ROWS, restarts=_RESTARTS)
    query = replace(at_row(query, _OVERTAKEN_ROW, "overtake", _mark(query)), options={})
    with (
        standalone(tmp_path, cores=2, memory_mb=1100, workers=2) as master,
        running(
            tmp_path / "run", Plan(master, _cluster(tmp_path, proof_classes), kafka.bootstrap, (query,))
        ) as process,
    ):
        chance = random.Random(7)
        for batches in (15, 30, 50):
            _await_batches((query,), batches)
            chance.choice(_executors(tmp_path)).kill()
        errors = process.errors()[query.name]
    assert len(errors) <= _RESTARTS, errors
    assert _mark(query).exists(), "no second attempt was made"
    _assert_exact(kafka, (query,), 5 * _ROWS)


def _failing(kafka: EmbeddedKafka, folder: Path, source: str, scope: str) -> QueryPlan:
    query = make_query(kafka.bootstrap, folder, source, scope, rows_per_batch=_BATCH_ROWS, restarts=_RESTARTS)
    return at_row(query, _FAILING_ROW, "failOnce", _mark(query))


def _mark(query: QueryPlan) -> Path:
    return Path(f"{query.checkpoint}-mark")


def _await_batches(queries: tuple[QueryPlan, ...], count: int) -> None:
    wait_until(lambda: all(Logs(query).committed >= count for query in queries), _WAIT_SECONDS, f"{count} batches")


def _executors(folder: Path) -> list[psutil.Process]:
    """The executors' processes: they work below the worker's folder."""
    work = str(folder / "work")
    found = [process for process in psutil.process_iter(["cmdline"]) if process.info["cmdline"]]
    return [process for process in found if _is_executor(process.info["cmdline"]) and process.cwd().startswith(work)]


def _is_executor(words: list[str]) -> bool:
    return any(word.endswith("CoarseGrainedExecutorBackend") for word in words)


def _cluster(folder: Path, classes: Path) -> dict[str, str]:
    return settings(folder, classes) | {
        "spark.executor.memory": "500m",
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.io.tmpdir={folder}",
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.task.maxFailures": "4",
        # Tasks move between executors from batch to batch, as they do behind a shuffle.
        "spark.locality.wait": "0",
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "2",
        "spark.speculation.quantile": "0.5",
    }


def _assert_exact(kafka: EmbeddedKafka, queries: tuple[QueryPlan, ...], rows: int = _ROWS) -> None:
    verdicts = {query.name: judge(kafka.bootstrap, query.name, rows) for query in queries}
    assert all(verdict.exact for verdict in verdicts.values()), verdicts
