"""A real host: the commands of the channel, and a host that is killed in the middle of a redistribution."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from penstock.control.errors import Unavailable
from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.channel import CancelHostTask, Exit, Prepare
from penstock.spark.host.exits import ExitReason
from penstock.spark.redistribute.engine import redistribute
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.settings import SparkSettings
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import CopyRequest, GenerationRemoval, RedistributionReport, SealRequest
from penstock.tasks.savepoint import SavepointRemoval, SavepointReport, SavepointRequest
from penstock.tasks.spec import TaskSpec
from tests.support.spark.hosts import (
    REPLY_SECONDS,
    Supervisor,
    jvm_pid,
    make_topic,
    quick_start,
    running_host,
    runs,
    wait_gone,
)
from tests.support.spark.hosts import run_host_task as run
from tests.support.spark.redistribution import KEY_GROUPS, Events, Job, Keys, job_config, output_topic

SUM = {"sql": "SELECT k, count(*) AS c, sum(v) AS s FROM events GROUP BY k"}
TOTAL = {"sql": "SELECT count(*) AS c FROM events"}


@pytest.fixture(scope="module")
def host_settings(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> SparkSettings:
    """A host over the checkpoints of this process."""
    folder = tmp_path_factory.mktemp("host")
    own: dict[str, Any] = {"spark_local_dir": folder / "spark", "heap_bytes": 600 * 2**20, "spark_conf": quick_start()}
    own |= {"inputs_interval_seconds": 0.3, "progress_interval_seconds": 0.2}
    return runtime.settings.model_copy(update=own)


@pytest.fixture(scope="module")
def host(host_settings: SparkSettings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    """Ready; the last test kills it."""
    with running_host("host", host_settings, tmp_path_factory.mktemp("host")) as supervisor:
        yield supervisor


def make_job(
    runtime: Runtime, kafka: EmbeddedKafka, query: dict[str, str], task_count: int, keys: int = 60
) -> tuple[Job, Events]:
    """A job whose tasks have read a row of each key."""
    events = Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), Keys(runtime.spark, "spark", keys))
    events.add_range(0, keys)
    config = job_config(
        {"events": events.topic},
        "spark",
        output_topic(kafka.bootstrap),
        query=query,
        output_mode="update",
        task_count=task_count,
    )
    job = Job(runtime, config)
    job.run()
    return job, events


@pytest.mark.long  # test_inputs.py takes such partitions in
def test_partitions_that_are_added_are_told_and_refused_at_the_next_start(
    host: Supervisor, runtime: Runtime, kafka: EmbeddedKafka
) -> None:
    """1. A task runs. 2. Its topic grows: the report says so, and the task goes on. 3. It does not start again."""
    job, events = make_job(runtime, kafka, SUM, task_count=1)
    (spec,) = task_specs(job.name, job.layout)
    assert host.start(spec).ok
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_partitions([NewPartitions(events.topic, KEY_GROUPS + 2)])[events.topic].result(30)

    def told() -> str | None:
        events.add_range(0, 1)
        progress = host.progress.get(spec.task_id)
        return None if progress is None else progress.input_problems.get("partitions_not_read")

    assert "has 8 partitions, so 2 would not be read: set it to 8" in wait_until(told, 60, "the new partitions")
    host.stop(spec.task_id)
    reply = host.start(spec, 2)
    assert (reply.ok, reply.error_kind) == (False, "broken_task")
    assert "so 2 would not be read" in str(reply.error)


def prepare(host: Supervisor, spec: TaskSpec) -> bool:
    reply = host.host.send(Prepare(id=0, spec=spec)).result(REPLY_SECONDS)
    assert reply.ok, reply.error
    return bool(reply.result["prepared"])


@pytest.mark.long
def test_the_next_tasks_are_prepared_while_the_present_one_runs(
    host: Supervisor, runtime: Runtime, kafka: EmbeddedKafka
) -> None:
    """1. A task runs. 2. Its state is copied, and two tasks are prepared, of which one has the same id. 3. It stops;
    the two start with what was prepared, and read on. 4. For tasks that run nothing is prepared."""
    job, events = make_job(runtime, kafka, SUM, task_count=1)
    (before,) = task_specs(job.name, job.layout)
    assert host.start(before).ok
    request = job.target(task_count=2)
    specs = task_specs(job.name, request.target)
    copy = CopyRequest(job=job.name, source=request.source, target=request.target)
    assert host.host.send(run(copy)).result(REPLY_SECONDS).ok
    assert [prepare(host, spec) for spec in specs] == [True, True]
    assert host.stop(before.task_id).ok
    assert host.host.send(run(request)).result(REPLY_SECONDS).ok
    assert [host.start(spec).error for spec in specs] == [None, None]
    told = [line for line in host.log_path.read_text().splitlines() if "task started" in line and job.name in line]
    assert ["prepared=True" in line for line in told] == [False, True, True], told
    assert [prepare(host, spec) for spec in specs] == [False, False]
    events.add_range(60, 120)
    for spec in specs:
        wait_until(lambda spec=spec: spec.task_id in host.progress, REPLY_SECONDS, f"{spec.task_id} to run")
        assert host.stop(spec.task_id).ok


@pytest.mark.long
def test_a_job_is_saved_redistributed_sealed_and_collected(
    host: Supervisor, runtime: Runtime, kafka: EmbeddedKafka
) -> None:
    """1. A savepoint is taken and removed. 2. A redistribution is under way, another of the job waits behind it and is
    cancelled: that is heard at once, out of the queue's order. 3. The first is done, the second claimed nothing. 4. A
    checkpoint that cannot be copied is told as the reason. 5. After the seal the host does not start a task of the old
    generation; nor when that was collected."""
    job, _ = make_job(runtime, kafka, SUM, task_count=1)
    savepoint = SavepointRequest(job=job.name, name="nightly", number=1, layout=job.layout)
    take_and_remove(host, runtime, savepoint)

    request = job.target(task_count=2)
    second = run(request.model_copy(update={"target": request.target.model_copy(update={"generation": 3})}))
    answers = [host.host.send(command) for command in (run(request), second)]
    cancel = host.host.send(CancelHostTask(id=0, key=second.task.key))
    assert cancel.result(REPLY_SECONDS).ok
    assert not answers[1].done()
    done, cancelled = (answer.result(REPLY_SECONDS) for answer in answers)
    assert done.ok, done.error
    assert RedistributionReport.model_validate(done.result).state_rows == 60
    assert (cancelled.ok, "was cancelled" in str(cancelled.error)) == (False, True)
    assert not (Path(runtime.settings.checkpoint_root) / job.name / "g3").exists()

    (job.checkpoint(0) / "state/0/_metadata/metadata").write_text("v1\n{")
    refused = host.host.send(run(savepoint.model_copy(update={"number": 2}))).result(REPLY_SECONDS)
    assert (refused.ok, "cannot be copied" in str(refused.error)) == (False, True)

    sealed = host.host.send(run(SealRequest(job=job.name, layout=request.source)))
    assert sealed.result(REPLY_SECONDS).ok
    old = host.start(task_specs(job.name, request.source)[0], epoch=9)
    assert (old.error_kind if not old.ok else host.next_ended().error_kind) == "fenced"
    removal = run(GenerationRemoval(job=job.name, generation=1))
    assert host.host.send(removal).result(REPLY_SECONDS).ok
    assert not job.checkpoint(0).exists()
    late = host.start(task_specs(job.name, request.source)[0], epoch=10)
    assert (late.error_kind, "was collected" in str(late.error)) == ("fenced", True)


def take_and_remove(host: Supervisor, runtime: Runtime, savepoint: SavepointRequest) -> None:
    taken = host.host.send(run(savepoint)).result(REPLY_SECONDS)
    assert taken.ok, taken.error
    assert SavepointReport.model_validate(taken.result).tasks[0].batch is not None
    folder = Path(runtime.settings.checkpoint_root) / savepoint.job / "savepoints" / savepoint.name
    assert (folder / "savepoint.json").exists()
    removal = SavepointRemoval(job=savepoint.job, name=savepoint.name, number=savepoint.number)
    assert host.host.send(run(removal)).result(REPLY_SECONDS).ok
    assert not folder.exists()


@pytest.mark.long
def test_a_late_redistribution_takes_nothing_from_a_job_that_was_resumed(
    host: Supervisor, runtime: Runtime, kafka: EmbeddedKafka
) -> None:
    """1. A job is stopped by commit 5 and resumed by commit 6: its task runs. 2. A redistribution that follows the stop
    comes late: refused, and the task goes on. 3. After the next stop, by commit 7, one is done; an older attempt that
    follows the same stop is refused then."""
    job, events = make_job(runtime, kafka, SUM, task_count=1)
    late = job.target(task_count=2).model_copy(update={"stopped_at": 5})
    spec = task_specs(job.name, late.source)[0]
    assert host.start(spec, epoch=3, commit_number=6).ok
    refused = host.host.send(run(late)).result(REPLY_SECONDS)
    assert (refused.ok, "of commit 6.0, and 5.2 is older" in str(refused.error)) == (False, True), refused.error
    events.add_range(60, 90)
    host.wait_for_records(spec.task_id, 90)
    assert host.ended.empty()
    assert host.stop(spec.task_id, finish_pending=True).ok
    newer = late.model_copy(update={"stopped_at": 7, "target": late.target.model_copy(update={"generation": 3})})
    assert host.host.send(run(newer)).result(REPLY_SECONDS).ok
    older = late.model_copy(update={"stopped_at": 7})
    refused = host.host.send(run(older)).result(REPLY_SECONDS)
    assert (refused.ok, "commit 7.3, and 7.2 is older" in str(refused.error)) == (False, True), refused.error


@pytest.mark.long
def test_what_cannot_be_moved_is_said_to_be_so(host: Supervisor, runtime: Runtime, kafka: EmbeddedKafka) -> None:
    job, _ = make_job(runtime, kafka, TOTAL, task_count=1)
    reply = host.host.send(run(job.target(task_count=2))).result(REPLY_SECONDS)
    assert (reply.ok, reply.error_kind) == (False, "broken_task")
    assert "shuffle job" in str(reply.error)


@pytest.mark.long
def test_a_killed_redistribution_is_repeated_elsewhere(
    host_settings: SparkSettings, runtime: Runtime, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    """1. A host redistributes a job with state, and is killed as soon as the new checkpoints are begun. 2. This
    process does it again and runs the new tasks: exact."""
    job, events = make_job(runtime, kafka, SUM, task_count=2, keys=20_000)
    request = job.target(task_count=3)
    root = Path(runtime.settings.checkpoint_root) / job.name / "g2"
    with running_host("killed", host_settings, tmp_path) as host:
        answer = host.host.send(run(request))
        wait_until((root / "task-0/offsets/0").exists, REPLY_SECONDS, "the new checkpoints", poll_s=0.001)
        host.host.kill()
    assert answer.exception(REPLY_SECONDS) is not None
    assert not (root / "task-0/commits/0").exists()

    assert redistribute(runtime, request).state_rows == 20_000
    job.config, job.generation = request.target.config, 2
    events.add_range(20_000, 21_000)
    job.run()
    assert job.last_rows("k") == job.unsplit().last_rows("k")


@pytest.mark.long
def test_a_killed_host_takes_its_jvm_along(host: Supervisor) -> None:
    """The last test of the file: its host ends here."""
    jvm = jvm_pid(host)
    assert runs(jvm)
    os.kill(host.host.pid, signal.SIGKILL)
    wait_gone(jvm)
    assert host.exit.result(REPLY_SECONDS) is ExitReason.KILLED
    with pytest.raises(Unavailable, match="killed"):
        host.host.send(Exit(id=0)).result(REPLY_SECONDS)
