"""Sections of streams on S3: of two tasks that write one at once, on two hosts, one says what it has; and a job is
exact though its hosts are killed and its size changes."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.config.model import JobConfig
from penstock.control.process import wait_until
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.settings import SparkSettings
from penstock.tasks.redistribution import Layout, RedistributionRequest
from penstock.tasks.spec import TaskSpec, key_group_ranges
from tests.integration.spark.test_s3_checkpoints import PATIENCE_S, on_s3, rows_of_delta, start
from tests.support.s3.servers import SERVERS, Hold, Server, server_and_login
from tests.support.spark.hosts import Supervisor, jvm_pid, run_host_task, running_host, wait_gone
from tests.support.spark.streams import NO_KAFKA, add_file, stream_config

pytestmark = pytest.mark.long
JOB, ROWS = "sectioned", 20
SECTIONS = f"checkpoints/{JOB}/streams/"


@pytest.fixture(params=SERVERS)
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    with server_and_login(monkeypatch, request.param, tmp_path / "s3", "data") as server:
        yield server


def config_of(folder: Path) -> JobConfig:
    source = {"path": str(folder / "events"), "value_schema": "k BIGINT, n BIGINT", "max_files_per_batch": 10}
    stream = {"format": "json", **source, "key_groups": 8, "key_columns": ["k"]}
    # Sections have ten files each, however long they take.
    several = {"task_count": 2, "max_bytes_per_trigger": 2**40}
    return stream_config(stream, "SELECT k, n FROM events", {"path": "s3a://data/out/table"}, **several)


def settings_of(folder: Path, store: Server) -> SparkSettings:
    settings = on_s3(folder, NO_KAFKA, store)
    return settings.model_copy(update={"path_roots": (*settings.path_roots, str(folder))})


def layout_of(config: JobConfig, generation: int) -> Layout:
    return Layout(generation=generation, config=config, ranges=key_group_ranges(config))


def add(folder: Path, number: int) -> None:
    """File `number`, with rows of its own."""
    add_file(folder / "events", [{"k": n % 10, "n": n} for n in range(number * ROWS, (number + 1) * ROWS)])


def wait_for_files(store: Server, count: int) -> None:
    wait_until(lambda: len(rows_of_delta(store, "out/table")) == count * ROWS, PATIENCE_S, f"{count} files", poll_s=0.5)
    assert rows_of_delta(store, "out/table") == Counter(range(count * ROWS))


def stop(host: Supervisor, specs: list[TaskSpec]) -> None:
    for spec in specs:
        stopped = host.stop(spec.task_id, finish_pending=True)
        assert stopped.ok, stopped.error


def test_sections_are_written_once_and_rows_are_exact(tmp_path: Path, store: Server) -> None:
    """1. A task is about to say what the first section has, and another file comes: another host's task is about to say
    something else of it. Both go on: one of them is right, for both. 2. Both hosts are killed while a batch is written.
    3. Another host goes on with both tasks. 4. Three tasks go on. Each row is there once."""
    settings, layout = settings_of(tmp_path, store), layout_of(config_of(tmp_path), 1)
    first, second = task_specs(JOB, layout)
    add(tmp_path, 0)
    with running_host("one", settings, tmp_path) as one, running_host("two", settings, tmp_path) as two:
        section = Hold(store, lambda key: key == f"{SECTIONS}g1/events/1", count=2)
        start(one, first, 1)
        section.wait(0)
        add(tmp_path, 1)
        start(two, second, 1)
        section.wait(1)
        section.let_go()
        wait_for_files(store, 2)
        written = {key: store.objects("data")[f"{SECTIONS}{key}"] for key in ("g1/events/0", "g1/events/1")}
        rows = Hold(store, lambda key: key.startswith("out/table/") and key.endswith(".parquet"))
        add(tmp_path, 2)
        rows.wait()
        for host in (one, two):
            os.kill(host.host.pid, signal.SIGKILL)
            wait_gone(jvm_pid(host))
        rows.let_go()
    with running_host("three", settings, tmp_path) as host:
        for spec in (first, second):
            start(host, spec, 2)
        add(tmp_path, 3)
        wait_for_files(store, 4)
        stop(host, [first, second])
        wider = layout_of(layout.config.model_copy(update={"task_count": 3}), 2)
        moved = host.host.send(run_host_task(RedistributionRequest(job=JOB, source=layout, target=wider)))
        assert moved.result(PATIENCE_S).ok, moved.result().error
        specs = task_specs(JOB, wider)
        for spec in specs:
            start(host, spec, 3)
        add(tmp_path, 4)
        wait_for_files(store, 5)
        stop(host, specs)
    objects = store.objects("data")
    assert {key: objects[f"{SECTIONS}{key}"] for key in written} == written
    assert {key.removeprefix(SECTIONS).partition("/")[0] for key in objects if key.startswith(SECTIONS)} == {"g1"}
