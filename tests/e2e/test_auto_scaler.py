"""The Auto Scaler on real Kafka, Postgres and Spark, with short periods.

Each story mostly waits for the samples of the next minute. So all that are chosen run side by side on one stack,
each on a thread of its own, and a test waits for the end of its story.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from penstock.control.process import wait_until
from services.auto_scaler.decide.policy import Policy
from tests.e2e.conftest import PERIODS
from tests.support.chaos.proxy import BOTH
from tests.support.chaos.stack import ChaosStack
from tests.support.scaling.pace import Pace
from tests.support.scaling.slow import ROWS_PER_SECOND, HotJob, LargeRowJob, SinkJob, SlowJob, publish, warm_up
from tests.support.spark.session import unique
from tests.support.stack.counts import CONVERGE_S

POLICY = Policy(
    cooldown_seconds=20,
    early_share=0.25,
    shrink_cooldown_seconds=30,
    shrink_factor=0.5,
    too_few_seconds=60,
    quiet_minutes=1,
    load_minutes=1,
    least_busy_minutes=1,
    headroom=0.1,
    recovery_per_slo=3,
    history_every_minutes=0,
    update_watch_seconds=60,
    traffic_seconds=20,
)
"""Minutes instead of hours and days. A lag is answered at 15 s of an SLO of 60 s."""
SETTINGS = {
    # Less often than elsewhere: the tasks need the machine.
    "PENSTOCK_REPORT_SECONDS": 2,
    "PENSTOCK_LOAD_INTERVAL_SECONDS": 5,
    "PENSTOCK_DISK_INTERVAL_SECONDS": 30,
    "PENSTOCK_FULL_FETCH_SECONDS": 30,
    "PENSTOCK_SHARD_MANAGER_ROUND_SECONDS": 2,
    "PENSTOCK_STATE_SYNCER_GENERATION_LOOK_SECONDS": 10,
    "PENSTOCK_SCALER_POLICY": POLICY.model_dump_json(exclude_unset=True),
    # Tasks sleep more than they work: more of them run at once than there are cores.
    "PENSTOCK_SPARK_MASTER": "local[8]",
}
SAMPLED_S = 200.0
"""Two minutes and some seconds: the first whole minute after a change, and its sample."""
ONE = 0.55 * ROWS_PER_SECOND
"""A rate for one task. Twice as much is for two, and four times as much for four."""

RARE = 0.3 * ROWS_PER_SECOND
SLO_S = 30.0
"""Of the job that is stopped."""


@pytest.fixture(scope="module")
def stack(servers_dir: Path) -> Iterator[ChaosStack]:
    """A stack of their own: elsewhere nobody expects that jobs are scaled within minutes."""
    folder = servers_dir / "scaled"
    folder.mkdir()
    environment = {name: str(value) for name, value in (PERIODS | SETTINGS).items()}
    with ChaosStack(folder, task_managers=2, free_ports=True, environment=environment) as running:
        publish(running)
        warm_up(running)
        yield running


def follows(stack: ChaosStack) -> SlowJob:
    """1. A task does about half of what it can. 2. The rate doubles, and doubles again: there are two tasks, then
    four. 3. It falls to the first rate: two tasks, then one. 4. Nothing else was done, and each row is counted once."""
    job = SlowJob(stack, unique("tide"))
    job.begin()
    pace = Pace(job.put, ONE)
    with pace.flowing(job.name):
        job.ledger.wait("it is healthy", lambda each: each.symptom == "none", SAMPLED_S)
        for rate, tasks in ((2 * ONE, 2), (4 * ONE, 4)):
            pace.change(rate)
            job.ledger.wait_size(tasks, 2 * SAMPLED_S)
            job.ledger.why()
            job.wait_runs(tasks)
        job.ledger.wait_well(SAMPLED_S)
        job.ledger.shown("metrics", job.name, "--last", "10m")
        pace.change(ONE)
        for tasks in (2, 1):
            job.ledger.wait_size(tasks, 2 * SAMPLED_S)
            job.ledger.why()
            job.wait_runs(tasks)
    job.wait_counted()
    job.assert_exact()
    assert job.ledger.sizes() == [2, 4, 2, 1]
    return job


def recovers(stack: ChaosStack) -> SlowJob:
    """1. A task is stopped, and a long backlog gathers. 2. It starts again. 3. It gets the tasks that work the backlog
    off in time: more than twice as many. 4. With them it takes no longer than asked, by the count of rows."""
    job = SlowJob(stack, unique("backlog"), slo_seconds=SLO_S)
    job.begin()
    with Pace(job.put, RARE).flowing(job.name):
        job.ledger.wait("it is healthy", lambda each: each.symptom == "none", SAMPLED_S)
        job.override({"desired_state": "stopped"})
        job.wait_stopped()
        job.put(4_000)
        job.override({"desired_state": None})
        job.wait_runs(1)
        job.ledger.wait_size(4, SAMPLED_S)
        job.ledger.why()
        job.wait_runs(4)
        changed_at = datetime.now(UTC)
        wait_until(lambda: job.waiting() < SLO_S * RARE, CONVERGE_S, f"{job.name} to recover", poll_s=0.5)
        seconds = (datetime.now(UTC) - changed_at).total_seconds()
    print(f"recovered in {seconds:.0f} s")
    assert seconds <= POLICY.recovery_per_slo * SLO_S
    job.wait_counted()
    job.assert_exact()
    return job


def outage(stack: ChaosStack) -> SinkJob:
    """1. Rows flow to Postgres. 2. It answers nobody. 3. There is an alert with what was measured, and nothing is
    scaled. 4. It answers again: every row is there once, and the alert goes."""
    job = SinkJob(stack, unique("sink").replace("-", "_"))
    job.begin()
    ledger = job.ledger
    with Pace(job.send, 20.0).flowing(job.name):
        ledger.wait("it is healthy", lambda each: each.symptom == "none", SAMPLED_S)
        links = [stack.links[f"{container}>outputs"] for container in stack.containers]
        stack.proxy.each([lambda link=link: link.hold(BOTH) for link in links])
        try:
            wait_until(
                lambda: "lag_untriaged" in ledger.alerts(), 2 * SAMPLED_S, "an alert about the outage", poll_s=0.5
            )
            ledger.why()
            for words in (("jobs", "show", job.name), ("alerts",), ("metrics", job.name), ("tasks", job.name)):
                ledger.shown(*words)
        finally:
            stack.proxy.each([lambda link=link: link.release(BOTH) for link in links])
        wait_until(lambda: not ledger.alerts(), 2 * SAMPLED_S, "the alert to go", poll_s=0.5)
    job.send_and_wait()
    job.assert_exact()
    return job


def pinned(stack: ChaosStack) -> SlowJob:
    """1. An override pins the number of tasks, for a while. 2. The job lags, and the scaler says whose number it is.
    3. The override expires, and the job gets more tasks."""
    job = SlowJob(stack, unique("pinned"))
    job.begin()
    with Pace(job.put, 2 * ONE).flowing(job.name):
        job.override({"task_count": 1}, expires_in_seconds=180, reason="the database behind it is small")
        held = job.ledger.wait("it is pinned", lambda each: each.symptom == "lag", SAMPLED_S)
        said = job.ledger.why()
        job.ledger.shown("explain", job.name)
        assert (held.outcome, job.ledger.sizes()) == ("nothing to do", [])
        assert "task_count is set by a higher layer" in said
        grown = job.ledger.wait("more tasks", lambda each: each.action == "increase_tasks", 2 * SAMPLED_S)
        job.ledger.why()
        job.wait_runs((grown.change or {})["task_count"])
    job.wait_counted()
    job.assert_exact()
    return job


def lacks_memory(stack: ChaosStack) -> LargeRowJob:
    """1. An isolated task works. 2. A row needs more than its memory: the task ends again and again. 3. It gets half as
    much heap again, and the reason says why. 4. That is enough: every row is there once."""
    job = LargeRowJob(stack, unique("large").replace("-", "_"))
    job.begin()
    job.send_and_wait()
    job.send_large(300)
    grown = job.ledger.wait("more memory", lambda each: each.action == "increase_memory", 2 * SAMPLED_S)
    for words in (("tasks", job.name), ("jobs", "show", job.name), ("decisions", job.name, "--why")):
        said = job.ledger.shown(*words)
    assert grown.change == {"resources": {"memory_bytes": 1068 * 2**20}}
    assert "a task ran out of memory" in said
    job.send_and_wait()
    job.assert_exact()
    job.ledger.shown("history", job.name)
    job.ledger.shown("metrics", job.name, "--last", "10m")
    return job


def hot_task(stack: ChaosStack) -> SlowJob:
    """1. Nine of ten rows are for one of two tasks, which cannot keep up; together they could. 2. Key groups move from
    it to the other one, and there are still two tasks. 3. The job is well, and every row is counted once."""
    job = HotJob(stack, unique("hot"))
    job.begin(task_count=2)
    with Pace(job.put, 1.25 * ROWS_PER_SECOND).flowing(job.name):
        dealt = job.ledger.wait("other key groups", lambda each: each.action == "rebalance", 2 * SAMPLED_S)
        job.ledger.shown("tasks", job.name)
        job.ledger.why()
        assert dealt.change == {"key_group_bounds": [1]}
        job.ledger.wait_well(2 * SAMPLED_S)
        job.ledger.shown("tasks", job.name)
    job.wait_counted()
    job.assert_exact()
    assert job.size() == 2
    return job


class Story(NamedTuple):
    """What happens, and all that the scaler does about it, in order."""

    tell: Callable[[ChaosStack], SlowJob | SinkJob | LargeRowJob]
    actions: list[str]


STORIES: Mapping[str, Story] = {
    "the job follows its rate": Story(follows, 2 * ["increase_tasks"] + 2 * ["decrease_tasks"]),
    "a stopped job recovers in time": Story(recovers, ["increase_tasks"]),
    "one hot task is relieved, and the job does not grow": Story(hot_task, ["rebalance"]),
    "a task that lacks memory gets more": Story(lacks_memory, ["increase_memory"]),
    "a sink that does not answer is left to people": Story(outage, []),
    "an override is respected": Story(pinned, ["increase_tasks"]),
}


@pytest.fixture(scope="module")
def told(stack: ChaosStack, request: pytest.FixtureRequest) -> Iterator[Mapping[str, Future[list[str]]]]:
    """All stories that were chosen, begun; each ends with the actions that were taken."""
    here = (item for item in request.session.items if item.path == request.path and isinstance(item, pytest.Function))
    chosen = [item.callspec.params["story"] for item in here]
    with ThreadPoolExecutor(len(chosen)) as threads:
        yield {story: threads.submit(_tell, story, stack) for story in chosen}


def _tell(story: str, stack: ChaosStack) -> list[str]:
    begun = time.monotonic()
    try:
        ledger = STORIES[story].tell(stack).ledger
    except BaseException:
        traceback.print_exc()  # long before the test that waits for it
        raise
    finally:
        print(f"{story}: {time.monotonic() - begun:.0f} s")
    ledger.shown("decisions", ledger.job)
    return [each.action for each in ledger.actions()]


@pytest.mark.long
@pytest.mark.parametrize("story", STORIES)
def test_the_auto_scaler_does_what_helps_and_nothing_else(told: Mapping[str, Future[list[str]]], story: str) -> None:
    assert told[story].result() == STORIES[story].actions
