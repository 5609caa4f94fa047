"""A real host: the commands of the channel, and a host that is killed in the middle of a redistribution."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.channel import Redistribute, RemoveGeneration, RemoveSavepoint, Seal, TakeSavepoint
from penstock.spark.redistribute.engine import redistribute
from penstock.spark.redistribute.old import task_specs
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import GenerationRemoval, RedistributionReport, SealRequest
from penstock.tasks.savepoint import SavepointRemoval, SavepointReport, SavepointRequest
from tests.support.redistribution import KEY_GROUPS, Events, Job, Keys, job_config, output_topic
from tests.support.spark import REPLY_SECONDS, Supervisor, make_topic, quick_start, running_host

SUM = {"sql": "SELECT k, count(*) AS c, sum(v) AS s FROM events GROUP BY k"}
TOTAL = {"sql": "SELECT count(*) AS c FROM events"}


@pytest.fixture(scope="module")
def host(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    """A host over the checkpoints of this process. The last test kills it."""
    folder = tmp_path_factory.mktemp("host")
    own = {"spark_local_dir": folder / "spark", "heap_bytes": 600 * 2**20, "spark_conf": quick_start()}
    settings = runtime.settings.model_copy(update=own)
    with running_host("host", settings, folder) as supervisor:
        yield supervisor


def make_job(
    runtime: Runtime, kafka: EmbeddedKafka, query: dict[str, str], task_count: int, keys: int = 60
) -> tuple[Job, Events]:
    """A job whose tasks have read a row of each key."""
    events = Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), Keys(runtime.host.spark, "spark", keys))
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


def test_a_host_redistributes_seals_and_collects(host: Supervisor, runtime: Runtime, kafka: EmbeddedKafka) -> None:
    """After the seal, the host itself does not start a task of the old generation; nor when that was collected."""
    job, _ = make_job(runtime, kafka, SUM, task_count=1)
    request = job.target(task_count=2)
    reply = host.host.send(Redistribute(id=0, request=request)).result(REPLY_SECONDS)
    assert reply.ok, reply.error
    assert RedistributionReport.model_validate(reply.result).state_rows == 60
    sealed = host.host.send(Seal(id=0, request=SealRequest(job=job.name, layout=request.source)))
    assert sealed.result(REPLY_SECONDS).ok
    old = host.start(task_specs(job.name, request.source)[0], epoch=9)
    assert (old.error_kind if not old.ok else host.next_ended().error_kind) == "fenced"
    removal = RemoveGeneration(id=0, request=GenerationRemoval(job=job.name, generation=1))
    assert host.host.send(removal).result(REPLY_SECONDS).ok
    assert not job.checkpoint(0).exists()
    late = host.start(task_specs(job.name, request.source)[0], epoch=10)
    assert (late.error_kind, "was collected" in str(late.error)) == ("fenced", True)


def test_a_host_takes_and_removes_a_savepoint(host: Supervisor, runtime: Runtime, kafka: EmbeddedKafka) -> None:
    """1. Taken. 2. Removed. 3. A checkpoint that cannot be copied is told as the reason."""
    job, _ = make_job(runtime, kafka, SUM, task_count=1)
    request = SavepointRequest(job=job.name, name="nightly", number=1, layout=job.layout)
    taken = host.host.send(TakeSavepoint(id=0, request=request)).result(REPLY_SECONDS)
    assert taken.ok, taken.error
    assert SavepointReport.model_validate(taken.result).tasks[0].batch is not None
    folder = Path(runtime.settings.checkpoint_root) / job.name / "savepoints/nightly"
    assert (folder / "savepoint.json").exists()
    removal = SavepointRemoval(job=job.name, name="nightly", number=1)
    assert host.host.send(RemoveSavepoint(id=0, request=removal)).result(REPLY_SECONDS).ok
    assert not folder.exists()
    (job.checkpoint(0) / "state/0/_metadata/metadata").write_text("v1\n{")
    again = request.model_copy(update={"number": 2})
    refused = host.host.send(TakeSavepoint(id=0, request=again)).result(REPLY_SECONDS)
    assert (refused.ok, "cannot be copied" in str(refused.error)) == (False, True)


def test_what_cannot_be_moved_is_said_to_be_so(host: Supervisor, runtime: Runtime, kafka: EmbeddedKafka) -> None:
    job, _ = make_job(runtime, kafka, TOTAL, task_count=1)
    reply = host.host.send(Redistribute(id=0, request=job.target(task_count=2))).result(REPLY_SECONDS)
    assert (reply.ok, reply.error_kind) == (False, "broken_task")
    assert "shuffle job" in str(reply.error)


def test_a_killed_redistribution_is_repeated_elsewhere(
    host: Supervisor, runtime: Runtime, kafka: EmbeddedKafka
) -> None:
    """1. The host redistributes a job with state, and is killed as soon as the new checkpoints are begun. 2. This
    process does it again and runs the new tasks: exact."""
    job, events = make_job(runtime, kafka, SUM, task_count=2, keys=20_000)
    request = job.target(task_count=3)
    root = Path(runtime.settings.checkpoint_root) / job.name / "g2"
    answer = host.host.send(Redistribute(id=0, request=request))
    wait_until((root / "task-0/offsets/0").exists, REPLY_SECONDS, "the new checkpoints", poll_s=0.001)
    host.host.kill()
    assert answer.exception(REPLY_SECONDS) is not None
    assert not (root / "task-0/commits/0").exists()

    assert redistribute(runtime, request).state_rows == 20_000
    job.config, job.generation = request.target.config, 2
    events.add_range(20_000, 21_000)
    job.run()
    assert job.last_rows("k") == job.unsplit().last_rows("k")
