"""Real hosts: the commands of the channel, and a host that is killed in the middle of a redistribution."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.channel import Redistribute, RemoveSavepoint, Reply, Seal, TakeSavepoint
from penstock.spark.redistribute.old import task_specs
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import RedistributionReport, RedistributionRequest, SealRequest
from penstock.tasks.savepoint import SavepointRemoval, SavepointReport, SavepointRequest
from tests.support.redistribution import KEY_GROUPS, Events, Job, Keys, job_config, output_topic
from tests.support.spark import REPLY_SECONDS, Supervisor, make_topic, running_hosts

SUM = {"sql": "SELECT k, count(*) AS c, sum(v) AS s FROM events GROUP BY k"}


@pytest.fixture(scope="module")
def hosts(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Supervisor]]:
    folder = tmp_path_factory.mktemp("hosts")
    settings = runtime.settings.model_copy(
        update={"spark_local_dir": folder / "spark", "heap_bytes": 600 * 2**20, "progress_interval_seconds": 0.2}
    )
    with running_hosts(["first", "second"], settings, folder) as both:
        yield both


def asked(host: Supervisor, request: RedistributionRequest) -> Reply:
    return host.host.send(Redistribute(id=0, request=request)).result(REPLY_SECONDS)


def test_a_killed_redistribution_is_repeated_by_another_host(
    hosts: list[Supervisor], runtime: Runtime, kafka: EmbeddedKafka
) -> None:
    """1. A job with state runs on the first host. 2. It redistributes and is killed as soon as the new checkpoints are
    begun. 3. The second host does it again, seals the old generation and runs the new tasks: exact."""
    first, second = hosts
    events = Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), Keys(runtime.host.spark, "spark", 30_000))
    events.add_range(0, 60_000)
    config = job_config(
        {"events": events.topic}, "spark", output_topic(kafka.bootstrap), query=SUM, output_mode="update", task_count=2
    )
    job = Job(runtime, config)
    run_on(first, job, 60_000)
    events.add_range(60_000, 61_000)
    request = job.target(task_count=3, threads_per_task=2)
    root = Path(runtime.settings.checkpoint_root) / job.name / "g2"
    answer = first.host.send(Redistribute(id=0, request=request))
    wait_until((root / "task-0/offsets/0").exists, REPLY_SECONDS, "the new checkpoints", poll_s=0.001)
    first.host.kill()
    assert answer.exception(REPLY_SECONDS) is not None
    assert not (root / "task-0/commits/0").exists()

    reply = asked(second, request)
    assert reply.ok, reply.error
    assert RedistributionReport.model_validate(reply.result).state_rows == 30_000
    sealed = second.host.send(Seal(id=0, request=SealRequest(job=job.name, layout=request.source)))
    assert sealed.result(REPLY_SECONDS).ok
    old = second.start(task_specs(job.name, request.source)[0], epoch=9)
    assert (old.error_kind if not old.ok else second.next_ended().error_kind) == "fenced"
    job.config, job.generation = request.target.config, 2
    run_on(second, job, 61_000)
    assert job.last_rows("k") == job.unsplit().last_rows("k")


def run_on(host: Supervisor, job: Job, records: int) -> None:
    """Runs the job's tasks until they have read so many records in all."""
    specs = task_specs(job.name, job.layout)
    for spec in specs:
        reply = host.start(spec)
        assert reply.ok, reply.error
    wait_until(lambda: sum(read(host, spec.task_id) for spec in specs) >= records, REPLY_SECONDS, "the tasks to read")
    for spec in specs:
        assert host.stop(spec.task_id, settle=True).result["clean"]


def read(host: Supervisor, task_id: str) -> int:
    progress = host.progress.get(task_id)
    if progress is None:
        return 0
    return sum(offset for partitions in progress.offsets.values() for offset in partitions.values())


def test_a_host_takes_and_removes_a_savepoint(hosts: list[Supervisor], runtime: Runtime, kafka: EmbeddedKafka) -> None:
    host = hosts[1]
    events = Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), Keys(runtime.host.spark, "spark"))
    events.add_range(0, 60)
    config = job_config(
        {"events": events.topic}, "spark", output_topic(kafka.bootstrap), query=SUM, output_mode="update"
    )
    job = Job(runtime, config)
    run_on(host, job, 60)
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


def test_what_cannot_be_moved_is_said_to_be_so(hosts: list[Supervisor], runtime: Runtime, kafka: EmbeddedKafka) -> None:
    host = hosts[1]
    events = Events(kafka.bootstrap, make_topic(kafka.bootstrap, KEY_GROUPS), Keys(runtime.host.spark, "spark"))
    events.add_range(0, 60)
    query = {"sql": "SELECT count(*) AS c FROM events"}
    config = job_config(
        {"events": events.topic}, "spark", output_topic(kafka.bootstrap), query=query, output_mode="update"
    )
    job = Job(runtime, config)
    run_on(host, job, 60)
    reply = asked(host, job.target(task_count=2))
    assert (reply.ok, reply.error_kind) == (False, "broken_task")
    assert "shuffle job" in str(reply.error)
