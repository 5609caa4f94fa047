"""The same task on two hosts: the older owner is fenced and nothing is written twice."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.local.kafka import EmbeddedKafka
from penstock.spark.checkpoint import is_clean
from penstock.spark.host.exits import ExitReason
from penstock.spark.settings import SparkSettings
from tests.support.spark.hosts import (
    END_SECONDS,
    Supervisor,
    job_config,
    jvm_pid,
    make_topic,
    produce,
    rows_of_files,
    running_host,
    task_spec,
)

ROUNDS = 1


@pytest.fixture(scope="module")
def hosts(shared_host: Supervisor, shared_settings: SparkSettings, shared_folder: Path) -> Iterator[list[Supervisor]]:
    """The shared host, and another one over the same checkpoints, which the last test of the file ends."""
    with running_host("another", shared_settings, shared_folder) as another:
        yield [shared_host, another]


@contextmanager
def steady_rows(bootstrap: str, topic: str) -> Iterator[list[int]]:
    """Rows with growing `n`, 20 a time, until the end; gives a list whose last item is how many there are."""
    written, stop = [0], threading.Event()

    def write() -> None:
        while not stop.wait(0.05):
            rows: list[dict[str, Any]] = [{"n": n, "word": "w"} for n in range(written[-1], written[-1] + 20)]
            produce(bootstrap, topic, rows, 2)
            written.append(written[-1] + 20)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield written
    finally:
        stop.set()
        thread.join()


@pytest.mark.long
def test_a_zombie_is_fenced_and_nothing_is_written_twice(
    kafka: EmbeddedKafka, hosts: list[Supervisor], shared_folder: Path
) -> None:
    """Again and again, while rows keep coming: the other host starts the task under the next epoch; the one that had
    it ends as `fenced`. At the end every row is there once."""
    folder, owners = shared_folder / "owners", hosts
    topic = make_topic(kafka.bootstrap, 2)
    spec = task_spec("moving", job_config(topic, 2, {"type": "files", "path": str(folder / "out")}))
    checkpoint = ""
    with steady_rows(kafka.bootstrap, topic) as written:
        for epoch in range(1, ROUNDS + 2):
            zombie, owner = owners[epoch % 2], owners[(epoch + 1) % 2]
            seen = written[-1]
            owner.progress.clear()
            reply = owner.start(spec, epoch)
            assert reply.ok, reply.error
            checkpoint = reply.result["checkpoint"]
            if epoch > 1:
                ended = zombie.next_ended()
                assert (ended.task_id, ended.error_kind) == (spec.task_id, "fenced")
            owner.wait_for_records(spec.task_id, seen + 20)
    owner.wait_for_records(spec.task_id, written[-1])
    assert owner.stop(spec.task_id, finish_pending=True).result["clean"]
    assert is_clean(checkpoint)
    assert sorted(rows_of_files(folder / "out" / "g1" / "task-0")["n"]) == list(range(written[-1]))


@pytest.mark.long
def test_a_second_start_of_the_same_epoch_fences_the_first(
    kafka: EmbeddedKafka, hosts: list[Supervisor], shared_folder: Path
) -> None:
    folder, (a, b) = shared_folder / "owners", hosts
    topic = make_topic(kafka.bootstrap, 2)
    spec = task_spec("same", job_config(topic, 2, {"type": "files", "path": str(folder / "same")}))
    assert a.start(spec, 5).result["token"] == "5.1"
    assert b.start(spec, 5).result["token"] == "5.2"
    produce(kafka.bootstrap, topic, [{"n": n, "word": "w"} for n in range(10)], 2)
    assert a.next_ended().error_kind == "fenced"
    b.wait_for_records(spec.task_id, 10)
    b.stop(spec.task_id, finish_pending=True)
    assert sorted(rows_of_files(folder / "same" / "g1" / "task-0")["n"]) == list(range(10))


@pytest.mark.long
def test_a_killed_jvm_takes_its_host_along(hosts: list[Supervisor]) -> None:
    """The last test of the file: the host that is not shared ends here."""
    _, another = hosts
    os.kill(jvm_pid(another), signal.SIGKILL)
    assert another.exit.result(END_SECONDS) is ExitReason.JVM_DIED
    assert not another.host.is_alive
