"""Tasks of one stream on real hosts: killed in the middle of a batch, held before a rescale, and exact."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from penstock.control.process import wait_until
from penstock.model.reports import TaskProgress
from penstock.spark.channel import Live
from penstock.spark.checkpoint import last_commit, last_offset
from penstock.spark.host.tasks import TaskTable
from penstock.spark.redistribute.copy import copy_state
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.settings import SparkSettings
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import CopyRequest, Layout
from penstock.tasks.spec import TaskSpec, key_group_ranges
from tests.integration.streams.test_key_groups import EVENT_TIME, WINDOWS, append, make_job, rows, sums
from tests.support.spark.hosts import REPLY_SECONDS, Supervisor, jvm_pid, quick_start, running_host, wait_gone
from tests.support.spark.streams import StreamJob

BEYOND_ALL_MS = 4_000_000_000_000


@pytest.fixture(scope="module")
def host_settings(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> SparkSettings:
    """A host over the checkpoints of this process."""
    folder = tmp_path_factory.mktemp("host")
    own: dict[str, Any] = {"spark_local_dir": folder / "spark", "heap_bytes": 600 * 2**20, "spark_conf": quick_start()}
    return runtime.settings.model_copy(update=own | {"progress_interval_seconds": 0.2})


def is_in_a_batch(job: StreamJob, spec: TaskSpec) -> bool:
    checkpoint = job.runtime.checkpoint(job.name, job.generation, spec.index)
    planned, finished = last_offset(checkpoint), last_commit(checkpoint)
    return planned is not None and planned > (-1 if finished is None else finished)


def start_all(host: Supervisor, job: StreamJob, epoch: int) -> list[TaskSpec]:
    specs = task_specs(job.name, job.layout)
    for spec in specs:
        reply = host.start(spec, epoch)
        assert reply.ok, reply.error
    return specs


def wait_for(host: Supervisor, job: StreamJob, specs: list[TaskSpec], section: int) -> None:
    def is_there() -> bool:
        assert host.ended.empty(), host.next_ended()
        return all(job.positions(spec.index) == {section} for spec in specs)

    wait_until(is_there, REPLY_SECONDS, f"all tasks at section {section}")


@pytest.mark.long
@pytest.mark.parametrize("kind", ["json", "delta"])
def test_a_job_is_exact_whatever_happens_to_its_hosts(
    host_settings: SparkSettings, runtime: Runtime, tmp_path: Path, kind: str
) -> None:
    """1. Three tasks read while rows come; their host is killed as soon as one of them is in a batch. 2. Another host
    goes on. 3. It is told to read on to a level that no section leads to: rows that come are not read. State is copied
    meanwhile. 4. Two tasks, then four, go on,
    each time on that host, with rows that came meanwhile. All windows but the open one are there, each once."""
    append(runtime, kind, tmp_path / "in", range(3))
    job = make_job(runtime, kind, tmp_path, WINDOWS, EVENT_TIME, task_count=3)
    with running_host("killed", host_settings, tmp_path) as host:
        specs = start_all(host, job, epoch=1)
        wait_until(lambda: any(is_in_a_batch(job, spec) for spec in specs), REPLY_SECONDS, "a batch", poll_s=0.001)
        os.kill(host.host.pid, signal.SIGKILL)
        wait_gone(jvm_pid(host))
    with running_host("next", host_settings, tmp_path) as host:
        append(runtime, kind, tmp_path / "in", [3])
        specs = start_all(host, job, epoch=2)
        wait_for(host, job, specs, 5)
        held = [spec.model_copy(update={"quiescing": True, "level_ms": BEYOND_ALL_MS}) for spec in specs]
        for spec in held:
            assert host.host.send(Live(id=0, spec=spec)).result(REPLY_SECONDS).ok
        wait_until(lambda: all(host.progress[spec.task_id].quiesced for spec in held), REPLY_SECONDS, "all to be quiet")
        append(runtime, kind, tmp_path / "in", [4])
        config = job.config.model_copy(update={"task_count": 2})
        target = Layout(generation=2, config=config, ranges=key_group_ranges(config))
        assert copy_state(runtime, CopyRequest(job=job.name, source=job.layout, target=target)).rows == 11
        assert {section for spec in specs for section in job.positions(spec.index)} == {5}
        for spec in specs:
            assert host.stop(spec.task_id, finish_pending=True).ok
        report = job.rescale(task_count=2)
        assert (report.uncopied, report.state_rows) == (None, 11)
        wait_for(host, job, start_all(host, job, epoch=3), 6)
        for spec in task_specs(job.name, job.layout):
            assert host.stop(spec.task_id, finish_pending=True).ok
        append(runtime, kind, tmp_path / "in", [5])
        assert job.rescale(task_count=4).state_rows == 11
        wait_for(host, job, start_all(host, job, epoch=4), 7)
        expected = sorted((k, f"{number:02}:00", c, s) for number in range(5) for k, c, s in sums([number]))
        wait_until(lambda: len(job.rows()) >= len(expected), REPLY_SECONDS, "the last windows")
        assert job.rows() == expected
        assert len(rows(0)) == sum(row[2] for row in expected if row[1] == "00:00")


@pytest.mark.long
def test_tasks_read_on_to_the_watermark_of_others_before_the_stop(runtime: Runtime, tmp_path: Path) -> None:
    """1. One of three tasks is four sections behind. 2. All hold, and say their watermarks. 3. It reads on to the
    greatest one, though there are newer rows, and is told so. 4. Nothing is left for after the stop."""
    append(runtime, "json", tmp_path / "in", range(5))
    job = make_job(runtime, "json", tmp_path, WINDOWS, EVENT_TIME, task_count=3)
    job.read_to(6, 0, 1)
    job.read_to(2, 2)
    append(runtime, "json", tmp_path / "in", [5])
    table = TaskTable(runtime)

    def told(spec: TaskSpec) -> TaskProgress:
        progress, ended = table.poll()
        assert not ended, ended
        return progress.get(spec.task_id, TaskProgress())

    specs = [spec.model_copy(update={"quiescing": True, "level_ms": 0}) for spec in task_specs(job.name, job.layout)]
    for spec in specs:
        table.start(spec, epoch=1)
    watermarks = [
        wait_until(lambda spec=spec: told(spec).watermark_ms, REPLY_SECONDS, "a watermark")
        for spec in specs  # type: ignore[misc]
    ]
    assert watermarks[0] == watermarks[1] > watermarks[2] > 0
    for spec in specs:
        table.live(spec.model_copy(update={"level_ms": watermarks[0]}))
    wait_until(lambda: told(specs[2]).watermark_ms == watermarks[0], REPLY_SECONDS, "the task that is behind")
    assert [job.positions(spec.index) for spec in specs] == [{6}, {6}, {6}]
    for spec in specs:
        table.stop(spec.task_id, finish_pending=True)
    assert job.rescale(task_count=2).levelled == 0
    job.read_to(7)
    assert job.rows() == sorted((k, f"{number:02}:00", c, s) for number in range(5) for k, c, s in sums([number]))
