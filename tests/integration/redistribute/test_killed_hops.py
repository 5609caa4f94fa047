"""Windows and sessions behind shuffles whose hosts are killed in the middle of batches: the results are those of a
batch query."""

from __future__ import annotations

import random
from pathlib import Path

import psutil
import pytest

from penstock.control.process import wait_until
from penstock.spark.checkpoint import is_clean
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.task import RunningTask, Runtime
from tests.support.spark.chains import SESSIONS, WINDOWS, Row, batch_answer, chain_of, closing, counts, row_of
from tests.support.spark.hosts import REPLY_SECONDS, jvm_pid, quick_start, running_host
from tests.support.spark.redistribution import BEGIN, Events, Job

_BATCH = 20
_DELAY_S = 10


class Feed:
    """Rows, each later than those before but for a few seconds; it knows all that it wrote."""

    def __init__(self, events: Events, seed: int) -> None:
        self.events, self.dice = events, random.Random(seed)
        self.rows: list[Row] = []

    def add(self, count: int) -> None:
        begin = len(self.rows)
        fresh = [row_of(self.events, self.dice, n) for n in range(begin, begin + count)]
        self.events.add(fresh)
        self.rows += fresh


def kill_in_mid_batch(job: Job, index: int, folder: Path) -> None:
    """Runs one task in a host of its own, in small batches, until one is planned and not committed. Then its processes
    are killed."""
    own = {"spark_local_dir": folder, "heap_bytes": 600 * 2**20, "spark_conf": quick_start()}
    spec = task_specs(job.name, job.layout)[index]
    small = spec.model_copy(update={"config": spec.config.model_copy(update={"max_records_per_trigger": _BATCH})})
    checkpoint = str(job.checkpoint(index))
    with running_host(f"{job.name}-{index}", job.runtime.settings.model_copy(update=own), folder) as host:
        reply = host.start(small)
        assert reply.ok, reply.error
        jvm = psutil.Process(jvm_pid(host))
        wait_until(lambda: _stands_in_mid_batch(jvm, checkpoint), REPLY_SECONDS, "a batch under way", poll_s=0.001)
        host.host.kill()
    assert not is_clean(checkpoint)


def _stands_in_mid_batch(jvm: psutil.Process, checkpoint: str) -> bool:
    """Stops the process when it looks right; what is seen then stays so. Lets it go on when it was too late."""
    if is_clean(checkpoint):
        return False
    jvm.suspend()
    if not is_clean(checkpoint):
        return True
    jvm.resume()
    return False


def finish_pending(job: Job, index: int) -> None:
    """Another owner ends the batch, and reads no more."""
    task = RunningTask(job.runtime, task_specs(job.name, job.layout)[index], epoch=1)
    task.claim()
    task.finish_pending()


def close_all(feed: Feed, chain: list[Job]) -> None:
    feed.events.add(closing(feed.events))
    for job in chain:
        job.run()


def test_a_session_behind_a_shuffle_has_all_rows_of_a_task_that_was_killed(
    runtime: Runtime, events: Events, tmp_path: Path
) -> None:
    """1. A shuffling task is killed in mid-batch, and another owner ends that batch. 2. It stands still while the other
    task and the reader run on, far beyond the delay. 3. The job of the reader gets another size. 4. It goes on."""
    feed = Feed(events, 1)
    chain = shuffle, reader = chain_of(runtime, events, 2, SESSIONS)
    feed.add(480)
    kill_in_mid_batch(shuffle, 0, tmp_path)
    finish_pending(shuffle, 0)
    shuffle.run([1])
    reader.run()
    reader.rescale(task_count=3)
    assert max(reader.watermark_ms(index) for index in range(3)) < _newest_ms(feed) - 5 * _DELAY_S * 1000
    close_all(feed, chain)
    assert counts(reader) == batch_answer(SESSIONS, feed.rows)


def _newest_ms(feed: Feed) -> float:
    return (BEGIN.timestamp() + max(seconds for _, _, seconds in feed.rows)) * 1000


@pytest.mark.long
@pytest.mark.parametrize("query", [pytest.param(WINDOWS, id="windows"), pytest.param(SESSIONS, id="sessions")])
@pytest.mark.parametrize("hops", [2, 3])
def test_each_task_of_a_chain_is_killed_and_stands_still(
    runtime: Runtime, events: Events, tmp_path: Path, hops: int, query: str
) -> None:
    """For each task of each job: 1. It is killed in mid-batch. 2. All others run on while time passes far beyond the
    delay; of every second one the pending batch, with a Kafka transaction open, has been ended by another owner. 3. It
    runs again, and jobs are rescaled, up and down."""
    feed = Feed(events, hops)
    chain = chain_of(runtime, events, hops, query)
    sizes = {job.name: (3, 2) for job in chain}
    for index in (0, 1):
        for job in chain:
            feed.add(240)
            for before in chain[: chain.index(job)]:
                before.run()
            kill_in_mid_batch(job, index, tmp_path)
            if (chain.index(job) + index) % 2:
                finish_pending(job, index)
            feed.add(240)
            for other in chain:
                other.run([task for task in range(other.config.task_count) if (other, task) != (job, index)])
            job.rescale(task_count=sizes[job.name][index])
            for other in chain:
                other.run()
    close_all(feed, chain)
    assert counts(chain[-1]) == batch_answer(query, feed.rows)
