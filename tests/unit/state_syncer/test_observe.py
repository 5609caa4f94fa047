"""Are the tasks gone? A table of what containers reported."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from penstock.model.health import Moment
from penstock.tasks.shards import Sharding, shard_of
from penstock.tasks.spec import task_id
from services.state_syncer.decide.observe import (
    Assignment,
    JobsTasks,
    ListedTask,
    Presence,
    Sighting,
    Silent,
    observe_stopped,
    silent_ones,
    survey,
)

ABSENT, PRESENT, UNKNOWN, UNTOLD = Presence.ABSENT, Presence.PRESENT, Presence.UNKNOWN, Presence.UNTOLD
STOP = 10
SHARDING = Sharding(64)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
MOMENT = Moment(NOW, NOW)
TASKS = JobsTasks("j", 2, None)


def live(name: str, commit: int | None = STOP, *, reported_by: str | None = "life-1") -> Sighting:
    return Sighting(name, "life-1", True, None if commit is None else reported_by, commit)


def lost(name: str, commit: int | None = 3) -> Sighting:
    return Sighting(name, "life-1", False, "life-1", commit)


CASES = {
    "no container was ever there": ([], (), (), ABSENT),
    "all have reported since": ([live("a"), live("b", 12)], ("a", "b"), (), ABSENT),
    "one still runs a task": ([live("a"), live("b")], ("a", "b"), ("b",), PRESENT),
    "one runs a task, and another has not reported": ([live("a", 9), live("b")], (), ("b",), PRESENT),
    "a report from before the stop that shows a task": ([live("a", 9)], (), ("a",), PRESENT),
    "a report from before the stop that shows none": ([live("a"), live("b", 9)], (), (), UNKNOWN),
    "a live container that never reported": ([live("a"), live("b", None)], (), (), UNKNOWN),
    "a report of a former life, without tasks": ([live("a", 12, reported_by="life-0")], (), (), UNKNOWN),
    "a report of a former life, with a task": ([live("a", 12, reported_by="life-0")], (), ("a",), UNKNOWN),
    "the one that ran it was lost": ([live("a"), lost("b")], ("a", "b"), ("b",), ABSENT),
    "the one that ran it was lost, another has not reported": ([live("a", 9), lost("b")], (), ("b",), UNKNOWN),
    "all are lost": ([lost("a"), lost("b")], (), ("a", "b"), ABSENT),
    "one that never reported was lost": ([live("a"), lost("b", None)], (), (), ABSENT),
    "a task of a container nobody knows": ([live("a")], (), ("ghost",), UNKNOWN),
    "an owner of shards that never registered": ([live("a")], ("a", "ghost"), (), UNKNOWN),
}


@pytest.mark.parametrize(("sightings", "owners", "holders", "expected"), CASES.values(), ids=CASES.keys())
def test_observe_stopped(
    sightings: list[Sighting], owners: tuple[str, ...], holders: tuple[str, ...], expected: Presence
) -> None:
    """Of a job whose tasks are unknown: all containers count."""
    assignment = Assignment(dict(enumerate(owners)), SHARDING)
    assert (
        observe_stopped(survey(sightings, assignment, MOMENT), [ListedTask(each, 0) for each in holders], STOP)
        is expected
    )


OWNED = {
    "both owners have reported, a third is silent": (["a", "b"], [live("a"), live("b"), live("c", 3)], (), UNTOLD),
    "the third never reported": (["a", "b"], [live("a"), live("b"), live("c", None)], (), UNTOLD),
    "the third has a former life's report": (["a"] * 2, [live("a"), live("c", 12, reported_by="old")], (), UNTOLD),
    "an owner is silent": (["a", "b"], [live("a"), live("b", 9)], (), UNKNOWN),
    "an owner never reported": (["a", "b"], [live("a"), live("b", None)], (), UNKNOWN),
    "an owner nobody knows": (["a", "ghost"], [live("a"), live("c", 3)], (), UNKNOWN),
    "nobody owns a shard": ([None, "a"], [live("a"), live("c", 3)], (), UNTOLD),
    "an owner was lost": (["a", "b"], [live("a"), lost("b"), live("c", 3)], (), UNTOLD),
    "the silent one had the task before it moved": (["a", "b"], [live("a"), live("b"), live("c", 3)], ("c",), UNTOLD),
    "a silent owner listed it": (["a", "b"], [live("a", 9), live("b"), live("c", 3)], ("a",), PRESENT),
    "the other one still lists it since": (["a", "a"], [live("a"), live("b"), live("c", 3)], ("b",), PRESENT),
    "a container nobody knows listed it": (["a", "a"], [live("a"), live("c", 3)], ("ghost",), UNKNOWN),
}


def _owners(names: list[str | None]) -> dict[int, str | None]:
    """Each task's shard has its owner; container c has all other shards."""
    others: dict[int, str | None] = dict.fromkeys(range(SHARDING.count), "c")
    return others | {shard_of(task_id("j", number), SHARDING.count): name for number, name in enumerate(names)}


@pytest.mark.parametrize(("names", "sightings", "holders", "expected"), OWNED.values(), ids=OWNED.keys())
def test_only_containers_that_may_have_had_a_shard_of_the_job_count(
    names: list[str | None], sightings: list[Sighting], holders: tuple[str, ...], expected: Presence
) -> None:
    """What is untold is absent once the stop is written down for those who get a shard later."""
    held = [ListedTask(each, 0) for each in holders]
    for unasked_stop in (STOP - 1, STOP):
        cluster = survey(sightings, Assignment(_owners(names), SHARDING, unasked_stop), MOMENT)
        told = ABSENT if expected is UNTOLD and unasked_stop >= STOP else expected
        assert observe_stopped(cluster, held, STOP, TASKS) is told
    unreadable = TASKS._replace(selector="eu")
    assert observe_stopped(cluster, held, STOP, unreadable) in (UNKNOWN, PRESENT), "its shards are unknown"


OLD = 12.1


def told(sighting: Sighting, report_seconds: float, alive_seconds: float | None = None) -> Sighting:
    """Its report and its heartbeat are so old, the heartbeat by default as old as the report."""
    alive = report_seconds if alive_seconds is None else alive_seconds
    times = (NOW - timedelta(seconds=seconds) for seconds in (report_seconds, alive))
    return sighting._replace(**dict(zip(("reported_at", "alive_at"), times, strict=True)))


SILENT = {
    "it has not applied the stop": (told(live("a", 9), OLD), (), True),
    "it reported lately": (told(live("a", 9), 12.0), (), False),
    "it has applied the stop": (told(live("a"), OLD), (), False),
    "it has applied the stop, and lists a task": (told(live("a"), OLD), ("a",), True),
    "it is lost": (told(lost("a"), OLD), ("a",), False),
    "it has a new life": (told(live("a", 9, reported_by="life-0"), OLD), (), False),
}


@pytest.mark.parametrize(("sighting", "holders", "is_silent"), SILENT.values(), ids=SILENT.keys())
def test_which_containers_are_silent_instead_of_saying_that_tasks_are_gone(
    sighting: Sighting, holders: tuple[str, ...], is_silent: bool
) -> None:
    """Container c is silent, too, but has nothing to say. Container d reports."""
    others = [told(live("c", 3), 99.0), told(live("d", 3), 0.0)]
    cluster = survey([sighting, *others], Assignment(_owners(["a", "a"]), SHARDING), MOMENT)
    held = [ListedTask(each, 0) for each in holders]
    assert silent_ones(cluster, held, STOP, TASKS) == ((Silent("a", OLD),) if is_silent else ())
    assert Silent("c", 99.0) in silent_ones(cluster, held, STOP, None), "it is unknown who has the job's shards"


AWAY = {
    "others report": ([told(live("a"), 20.0), told(live("b"), 1.0)], {"a"}, set()),
    "nobody's reports arrive": ([told(live("a"), 20.0), told(live("b"), 20.0)], set(), {"a", "b"}),
    "the same, and heartbeats do": ([told(live("a"), 20.0, 2.0), told(live("b"), 20.0, 2.0)], set(), {"a", "b"}),
    "another is the first after an outage": ([told(live("a"), 20.0), told(live("b"), 1.0, 20.0)], set(), {"a"}),
    "another's heartbeat was due as its report": ([told(live("a"), 20.0), told(live("b"), 1.0, 8.0)], set(), {"a"}),
    "another's came later": ([told(live("a"), 20.0), told(live("b"), 1.0, 7.9)], {"a"}, set()),
    "its own heartbeats arrive": ([told(live("a"), 20.0, 12.0), told(live("b"), 1.0)], set(), {"a"}),
    "it is alone": ([told(live("a"), 20.0)], set(), {"a"}),
    "it is alone but for a lost one": ([told(live("a"), 20.0), told(lost("z"), 1.0)], set(), {"a"}),
    "all report": ([told(live("a"), 1.0), told(live("b"), 12.0)], set(), set()),
    "one never did": ([live("a", None), told(live("b"), 1.0)], set(), set()),
}


@pytest.mark.parametrize(("sightings", "silent", "unheard"), AWAY.values(), ids=AWAY.keys())
def test_a_container_is_silent_only_if_reports_of_others_are_taken(
    sightings: list[Sighting], silent: set[str], unheard: set[str]
) -> None:
    """Where the store or the Task Service was away, all reports are old."""
    heard_at = max((each.reported_at for each in sightings if each.reported_at is not None), default=None)
    cluster = survey(sightings, Assignment(_owners(["a", "b"]), SHARDING), Moment(NOW, heard_at))
    assert (set(cluster.silent), set(cluster.unheard)) == (silent, unheard)
    seconds = [each.seconds for each in silent_ones(cluster, [ListedTask("a", 0)], STOP, TASKS)]
    assert seconds == [20.0] * len(silent)
