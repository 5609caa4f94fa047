"""Are the tasks gone? A table of what containers reported."""

from __future__ import annotations

import pytest

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
    assert observe_stopped(survey(sightings, assignment), [ListedTask(each, 0) for each in holders], STOP) is expected


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
        cluster = survey(sightings, Assignment(_owners(names), SHARDING, unasked_stop))
        told = ABSENT if expected is UNTOLD and unasked_stop >= STOP else expected
        assert observe_stopped(cluster, held, STOP, TASKS) is told
    unreadable = TASKS._replace(selector="eu")
    assert observe_stopped(cluster, held, STOP, unreadable) in (UNKNOWN, PRESENT), "its shards are unknown"


OLD = 12.1
SILENT = {
    "it has not applied the stop": (live("a", 9)._replace(report_seconds=OLD), (), True),
    "it reported lately": (live("a", 9)._replace(report_seconds=12.0), (), False),
    "it has applied the stop": (live("a")._replace(report_seconds=OLD), (), False),
    "it has applied the stop, and lists a task": (live("a")._replace(report_seconds=OLD), ("a",), True),
    "it is lost": (lost("a")._replace(report_seconds=OLD), ("a",), False),
    "it has a new life": (live("a", 9, reported_by="life-0")._replace(report_seconds=OLD), (), False),
}


@pytest.mark.parametrize(("sighting", "holders", "is_silent"), SILENT.values(), ids=SILENT.keys())
def test_which_containers_are_silent_instead_of_saying_that_tasks_are_gone(
    sighting: Sighting, holders: tuple[str, ...], is_silent: bool
) -> None:
    """Container c is silent, too, but has nothing to say."""
    other = live("c", 3)._replace(report_seconds=99.0)
    cluster = survey([sighting, other], Assignment(_owners(["a", "a"]), SHARDING))
    held = [ListedTask(each, 0) for each in holders]
    assert silent_ones(cluster, held, STOP, TASKS) == ((Silent("a", OLD),) if is_silent else ())
    assert Silent("c", 99.0) in silent_ones(cluster, held, STOP, None), "it is unknown who has the job's shards"
