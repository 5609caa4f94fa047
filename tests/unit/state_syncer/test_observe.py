"""Are the tasks gone? A table of what containers reported."""

from __future__ import annotations

import pytest

from services.state_syncer.decide.observe import Presence, Sighting, observe_stopped, survey

ABSENT, PRESENT, UNKNOWN = Presence.ABSENT, Presence.PRESENT, Presence.UNKNOWN
STOP = 10


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
    assert observe_stopped(survey(sightings, owners), holders, STOP) is expected
