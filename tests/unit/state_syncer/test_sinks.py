"""Which commits wait for an output, and who makes it."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.classify import NO_DIFFERENCE
from penstock.model.jobs import JobState
from services.state_syncer.decide.change import awaits_sink
from services.state_syncer.decide.decisions import Commit
from services.state_syncer.decide.view import JobView, Running, SyncRecord
from services.state_syncer.host_tasks.next_attempt import LiveContainer
from services.state_syncer.host_tasks.outcomes import Failed, Unanswered
from services.state_syncer.host_tasks.output_tasks import OutputTasks
from tests.support.store.jobs import make_config

SIZED = {"key_groups": 4}
CONTAINERS = {
    name: LiveContainer(f"http://{name}", frozenset(offers))
    for name, offers in (("a", ("n",)), ("b", ("n", "disk=ssd")), ("c", ("s", "disk=ssd")))
}


def running(*, started: bool = True, **config: Any) -> Running:
    return Running(make_config(**config), 1, 1, 0, stopping=False, started=started, commit_number=1)


@pytest.mark.parametrize(
    ("before", "config", "stopping", "waits"),
    [
        (None, {"output": SIZED}, False, True),
        (None, {}, False, False),
        (None, {"output": SIZED, "desired_state": "stopped"}, False, False),
        (running(output=SIZED), {"output": SIZED, "priority": 2}, False, False),
        (running(output=SIZED), {"output": SIZED | {"topic": "elsewhere"}}, False, True),
        (running(output=SIZED), {"output": SIZED | {"topic": "elsewhere"}, "desired_state": "stopped"}, False, True),
        (running(output=SIZED), {"output": SIZED | {"topic": "elsewhere"}}, True, False),
        (running(started=False, output=SIZED), {"output": SIZED}, False, True),
    ],
)
def test_a_commit_waits_for_an_output_that_may_not_be_there(
    before: Running | None, config: Any, *, stopping: bool, waits: bool
) -> None:
    commit = Commit(make_config(**config), 2, 1, 0, stopping=stopping)
    assert awaits_sink(JobView("j", 2, 0, False, expected=make_config(), running=before), commit) is waits


def test_who_meets_what_the_job_asks_for_makes_its_output_and_another_after_each_failure() -> None:
    assert {_asked("j", failures, region="n") for failures in range(2)} == {"a", "b"}
    assert {_asked("j", failures, container_labels={"disk": "ssd"}) for failures in range(2)} == {"b", "c"}
    assert _asked("j", 0, region="n", container_labels={"disk": "ssd"}) == "b"
    assert _asked("j", 0, region="nowhere") in CONTAINERS


def _asked(job: str, failures: int, **asks: Any) -> str | None:
    config = make_config(output=SIZED, **asks)
    sync = SyncRecord(JobState.FAILED, 2, failures=failures)
    sinks = OutputTasks(CONTAINERS, lambda _: Unanswered(), 1)
    sinks.offer(JobView(job, 2, 0, False, expected=config, sync=sync), Commit(config, 2, 1, 0))
    (ask,) = sinks.attempts()
    return ask.key.container


def test_no_more_than_so_many_are_made_at_once_the_oldest_write_first() -> None:
    sinks = OutputTasks(CONTAINERS, lambda _: Unanswered(), 2)
    config = make_config(output=SIZED)
    late = [
        sinks.offer(
            JobView(job, revision, 0, False, expected=config), Commit(config, revision, 1, 0, difference=NO_DIFFERENCE)
        )
        for job, revision in (("second", 2), ("third", 3), ("first", 1))
    ]
    assert [found and found[0].job for found in late] == [None, None, "third"]
    assert late[2] is not None
    assert late[2][1].detail == "initialize_sink: no more than 2 at once"
    asks = sinks.attempts()
    assert [(ask.key.job, ask.key.number) for ask in asks] == [("first", 1), ("second", 2)]


def test_a_configuration_that_cannot_be_read_is_no_request() -> None:
    sinks = OutputTasks(CONTAINERS, lambda _: Unanswered(), 2)
    config = {**make_config(output=SIZED), "task_count": "many"}
    sinks.offer(JobView("j", 1, 0, False, expected=config), Commit(config, 1, 1, 0))
    (ask,) = sinks.attempts()
    assert (ask.key.job, isinstance(ask.request, Failed)) == ("j", True)
