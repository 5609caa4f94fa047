"""A change that is carried out: what holds the tasks is told, and no layer is accused of a size that is not run yet."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.model.causes import CauseKind, Certainty
from penstock.model.jobs import JobState
from services.job_service.causes.facts import UnderWay
from services.job_service.causes.rank import causes_of
from tests.support.job_service.causes import BUSY, WELL, ago, change, facts, failed, leaf, task

WAITS = "quiesce: no container reports task 0, which c2 is to run"
RESCALE = UnderWay("quiesce", ago(80), ("task_count",), 8, WAITS)
JOB: dict[str, Any] = {"state": JobState.RESCALING, "detail": WAITS, "revision": 8}
ASKED = change({"task_count": 2}, {"task_count": 4}, 90, revision=8)
TASKS = [task(0, progress=BUSY), task(1, progress=BUSY)]
OF_FOUR: dict[str, Any] = {"job": JOB, "changes": [ASKED], "settings": [leaf("task_count", 4)]}


@pytest.mark.parametrize("progress", [BUSY, WELL], ids=["behind", "well"])
def test_a_rescale_that_holds_its_tasks_is_the_first_cause(progress: Any) -> None:
    found = causes_of(facts([task(0, progress=progress), task(1)], under_way=RESCALE, **OF_FOUR))
    first = found[0]
    assert (first.kind, first.certainty) == (CauseKind.RECENT_CHANGE, Certainty.CERTAIN)
    assert first.summary == "a rescale holds its tasks: step quiesce for 80 s"
    assert first.evidence[0] == (
        "it waits: no container reports task 0, which c2 is to run; the tasks take no new rows until then"
    )
    assert "by ann" in first.evidence[1]
    assert "task_count: 2 to 4" in first.evidence[1]
    assert "`penstock sync etl`" in first.advice


def test_the_step_level_is_told_by_its_name_although_it_is_recorded_as_quiesce() -> None:
    level = RESCALE._replace(detail="level: 1 task reads on to the greatest watermark of all, 12:00")
    first = causes_of(facts(TASKS, under_way=level, **OF_FOUR))[0]
    assert first.summary == "a rescale holds its tasks: step level for 80 s"
    assert first.evidence[0].startswith("it waits: 1 task reads on")


def test_a_detail_of_another_step_is_not_told_as_that_of_this_one() -> None:
    first = causes_of(facts(TASKS, under_way=RESCALE._replace(detail="copy_state: c1 copies"), **OF_FOUR))[0]
    assert first.evidence[0] == "the tasks take no new rows until then"


def test_a_restore_that_holds_its_tasks_says_who_asked() -> None:
    asked = change(None, None, 90, action="restore", layer=None, version=None, revision=8)
    plan = RESCALE._replace(fields=(), is_restore=True)
    first = causes_of(facts(TASKS, under_way=plan, job=JOB, changes=[asked]))[0]
    assert first.summary.startswith("a restore holds its tasks")
    assert "by ann" in first.evidence[1]


def test_while_all_tasks_run_or_crash_no_rescale_comes_first() -> None:
    copies = RESCALE._replace(step="copy_state", detail="copy_state: c1 copies")
    assert CauseKind.RECENT_CHANGE not in {each.kind for each in causes_of(facts([task()], under_way=copies, job=JOB))}
    crashing = facts([failed("query: no column x"), task(1)], under_way=RESCALE, **OF_FOUR)
    assert [each.kind for each in causes_of(crashing)][:2] == [CauseKind.BAD_CODE, CauseKind.RECENT_CHANGE]


def test_a_layer_is_not_accused_of_a_size_that_the_rescale_is_about_to_give() -> None:
    """2 tasks run; the layer oncall asks for 4, and the rescale is under way."""
    kinds = {each.kind for each in causes_of(facts(TASKS, under_way=RESCALE, **OF_FOUR))}
    assert not kinds & {CauseKind.HELD_BY_LAYER, CauseKind.TOO_SMALL}
    runs = causes_of(facts(TASKS, settings=[leaf("task_count", 2)]))
    assert runs[0].kind is CauseKind.HELD_BY_LAYER


def test_a_size_that_waits_for_its_turn_is_told_as_such() -> None:
    """No plan has begun: the running size is too small, and the layer that asks for more does not hold it."""
    first = causes_of(facts(TASKS, **(OF_FOUR | {"job": JOB | {"state": JobState.PENDING, "detail": ""}})))[0]
    assert (first.kind, first.summary) == (CauseKind.TOO_SMALL, "2 tasks are too few")
    assert first.evidence[-1].endswith("; the job does not run that yet")
    assert first.advice == "wait: `penstock watch etl`"


@pytest.mark.parametrize(
    ("name", "value", "running"), [("trigger_interval_seconds", 600.0, 5.0), ("max_records_per_trigger", 20, 90_000)]
)
def test_a_limit_that_does_not_run_yet_holds_nothing(name: str, value: Any, running: Any) -> None:
    read = {"input_rows_per_second": 3.9, "backlog_records": 787, "processed_rows_per_second": 5.0, "busy_share": 0.5}
    config = {"trigger_interval_seconds": 5.0} | {name: running}
    known = facts([task(progress=BUSY | read)], settings=[leaf(name, value)], config=config)
    assert CauseKind.HELD_BY_LAYER not in {each.kind for each in causes_of(known)}
