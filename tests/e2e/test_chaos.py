"""Random but seeded faults of network and processes, while rows flow: results are exact, and everything recovers.

A run prints its seed and each fault as it begins. `CHAOS_SHORT_SEED=7 pytest tests/e2e/test_chaos.py` and
`CHAOS_SEEDS=[7] CHAOS_SECONDS=180 pytest -m long tests/e2e/test_chaos.py` repeat the faults of seed 7.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial

import pytest

from penstock.control.process import wait_until
from penstock.local import supervisor
from penstock.wire.job_client import JobClient
from tests.e2e.conftest import LEASE_SECONDS
from tests.support.chaos.jobs import Chain, GrowingCounts, Judged, Rows, Windows, running
from tests.support.chaos.perform import perform
from tests.support.chaos.settings import ChaosSettings
from tests.support.chaos.stack import SERVERS, ChaosStack
from tests.support.chaos.timetable import Fault, Kind, Pace, timetable
from tests.support.chaos.watch import double_runs
from tests.support.spark.session import unique

SETTINGS = ChaosSettings()
SETTLE_S = 120.0
SHORT = Pace(SETTINGS.short_seconds, pause=(0.5, 2.5), short=(0.5, 3.0), long=(4.0, 16.0), long_share=0.3)
LONG = Pace(SETTINGS.seconds, pause=(1.0, 5.0), short=(0.5, 5.0), long=(8.0, 30.0), long_share=0.35)


@pytest.fixture(autouse=True)
def _started_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many die here one after another, which elsewhere means that something is broken."""
    monkeypatch.setattr(supervisor, "pause_seconds", lambda _: 0.25)


def test_counts_that_are_rescaled_are_exact_after_a_short_chaos(stack: ChaosStack):
    seed = SETTINGS.short_seed
    _check_chaos(stack, seed, timetable(seed, stack.targets(), SHORT), (GrowingCounts(stack, unique("counts")),))


@pytest.mark.long
@pytest.mark.parametrize("seed", SETTINGS.seeds)
def test_jobs_like_the_demos_are_exact_after_minutes_of_chaos(stack: ChaosStack, seed: int):
    """Postgres and Kafka crash, too."""
    jobs = (Rows(stack, f"rows_{seed}"), Windows(stack, unique("windows")), Chain(stack, unique("chain")))
    _check_chaos(stack, seed, timetable(seed, stack.targets(servers=SERVERS), LONG), jobs)


def _check_chaos(stack: ChaosStack, seed: int, faults: tuple[Fault, ...], jobs: tuple[Judged, ...]) -> None:
    """1. Rows flow. 2. Faults come and go. 3. All is up again: services, containers, jobs, and nobody is alarmed.
    4. Every row has its effect once. 5. No task ever ran twice, by the containers' own word."""
    with running(stack, jobs), double_runs(stack) as double_run_seconds:
        with ExitStack() as flowing:
            for job in jobs:
                flowing.enter_context(job.flow())
            print(f"chaos by seed {seed}, {len(faults)} faults")
            begun_at = time.monotonic()
            perform(stack, faults)
            healed_at = time.monotonic()
            _wait_recovered(stack, [name for job in jobs for name in job.parts()], healed_at - begun_at)
            print(f"recovered in {time.monotonic() - healed_at:.1f} s")
        for job in jobs:
            job.end()
    witnesses = set(stack.containers) - _stood_still(faults)
    assert {name: double_run_seconds[name] for name in witnesses} == dict.fromkeys(witnesses, 0.0)


def _stood_still(faults: tuple[Fault, ...]) -> set[str]:
    """Containers that may have slept through the end of their lease, hosts and all. Not knowing that the hosts slept,
    too, they assume the worst."""
    return {fault.target for fault in faults if fault.kind is Kind.FREEZE and fault.seconds > LEASE_SECONDS / 2}


def _wait_recovered(stack: ChaosStack, jobs: list[str], chaos_s: float) -> None:
    """A task that crashed again and again is well after twice the longest time between two of its crashes: so long
    there is an alert."""
    for process in stack.plan.ports:
        stack.supervisor.wait_ready(process)
    with stack.client() as client:
        wait_until(lambda: _live(client) == set(stack.containers), SETTLE_S, "all containers to be live", poll_s=0.2)
        for job in jobs:
            wait_until(partial(_is_settled, client, job), SETTLE_S + 2 * chaos_s, f"{job} to settle", poll_s=0.2)


def _live(client: JobClient) -> set[str]:
    return {view.name for view in client.containers().containers if view.state == "live"}


def _is_settled(client: JobClient, job: str) -> bool:
    """Whether the tasks run what is expected, nothing is left to be done about it, and nobody is alarmed."""
    sync = client.sync(job)
    is_quiet = (sync.plan, sync.failures, client.alerts(subject=job).alerts) == (None, 0, [])
    return is_quiet and client.get_job(job).converged
