"""Windows and sessions behind a shuffle, on the whole stack: whatever befalls the tasks, the results are those of a
batch query over the same rows.

`CHAOS_SEEDS=[7] pytest -m long tests/e2e/test_lost_jobs.py` repeats the rows and the faults of seed 7.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from penstock.control.process import wait_until
from penstock.local import supervisor
from tests.support.chaos.lost_jobs import DELAY_S, WAIT_S, Link, LostJobs, lost_jobs
from tests.support.chaos.perform import perform
from tests.support.chaos.proxy import BOTH
from tests.support.chaos.settings import ChaosSettings
from tests.support.chaos.stack import ChaosStack
from tests.support.chaos.timetable import Fault, Kind

_FAR_BEHIND_S = 5 * DELAY_S
_ROWS = 20_000

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def _started_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some die here one after another, which elsewhere means that something is broken."""
    monkeypatch.setattr(supervisor, "pause_seconds", lambda _: 0.25)


@pytest.mark.parametrize("seed", ChaosSettings().seeds)
def test_windows_and_sessions_behind_a_shuffle_are_those_of_a_batch_query(stack: ChaosStack, seed: int):
    """Rows keep coming. 1. A task of the shuffle stands still, far beyond the delay in event time, while the other one
    and the readers go on; a reader gets another size meanwhile. 2. All jobs get other sizes at once, and a container is
    killed. 3. One of the readers, which has one task then, is saved, writes more, and goes back to what was saved: it
    alone, so no row comes twice. 4. Another task of the shuffle stands still. 5. As 2, and hosts are killed. 6. The
    results are those of DuckDB, row for row."""
    with lost_jobs(stack, seed) as jobs:
        with jobs.bids.flow():
            _befall(stack, jobs)
            wait_until(lambda: len(jobs.bids.sent) >= _ROWS, WAIT_S, f"{_ROWS} rows")
        jobs.assert_exact(again=jobs.windows)


def _befall(stack: ChaosStack, jobs: LostJobs) -> None:
    for reader in jobs.readers:
        reader.wait_further()
    with _held(stack, jobs, 0):
        jobs.sessions.rescale(3)
    _change(stack, jobs, Kind.KILL, {jobs.shuffle: 3, jobs.windows: 1, jobs.sessions: 1})
    jobs.windows.save("one-task")
    jobs.windows.wait_further()
    jobs.windows.restore("one-task", 3)
    with _held(stack, jobs, 1):
        jobs.sessions.rescale(2)
    _change(stack, jobs, Kind.KILL_HOST, {jobs.shuffle: 1, jobs.windows: 2, jobs.sessions: 3})


@contextmanager
def _held(stack: ChaosStack, jobs: LostJobs, index: int) -> Iterator[None]:
    """A task of the shuffle, and those beside it, reach no Kafka until they are far behind, and until a reader that
    goes on waits for one of the shuffle. The tasks of each job are in both containers before."""
    for job in (jobs.windows, jobs.shuffle):
        job.wait_apart()
    container = wait_until(partial(jobs.shuffle.container_of, index), WAIT_S, "the task to run")
    link, producers = stack.links[f"{container}>kafka"], jobs.producers_in(container)
    begun_s = jobs.bids.newest_s()
    stack.proxy.each([partial(link.hold, BOTH)])
    try:
        yield
        wait_until(partial(jobs.waiting_for, producers), WAIT_S, "a reader to wait for the task that stands still")
        wait_until(lambda: jobs.bids.newest_s() > begun_s + _FAR_BEHIND_S, WAIT_S, "the task to be far behind")
        print(f"{', '.join(producers)} stood still for {jobs.bids.newest_s() - begun_s:.0f} s of event time")
    finally:
        stack.proxy.each([partial(link.release, BOTH)])


def _change(stack: ChaosStack, jobs: LostJobs, kind: Kind, sizes: dict[Link, int]) -> None:
    """All get another size; meanwhile a container is killed, or its hosts."""
    for job, size in sizes.items():
        job.rescale(size)
    at_s, container = round(jobs.dice.uniform(0.0, 6.0), 1), jobs.dice.choice(stack.containers)
    perform(stack, [Fault(at_s, 1.0 if kind is Kind.KILL else 0.0, kind, container)])
    for job, size in sizes.items():
        job.wait_runs(size)
        print(f"{job.name} runs {size} tasks, {len(jobs.bids.sent)} rows were sent")
