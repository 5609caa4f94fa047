"""What `penstock decisions --why` says of a decision."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.model import JobConfig
from services.auto_scaler.decide.decision import DecisionInputs
from services.auto_scaler.decide.explain import sentences
from services.auto_scaler.decide.model import Action, JobUpdate, Symptom, Use, nothing
from services.auto_scaler.decide.symptoms import JobSymptoms
from tests.support.auto_scaler import NOW, QUIET, change, job, load, past, rate, situation, state, symptoms


def why(found: JobSymptoms, config: JobConfig, **known: Any) -> list[str]:
    inputs = DecisionInputs(**situation(found, config, state(**known))._asdict())
    return sentences(inputs, inputs.decide())


def test_a_growth_is_told_from_the_symptom_to_the_limit() -> None:
    grew = why(
        symptoms(120.0, processed_rows_per_second=200.0),
        job(2, max_task_count=10),
        rate=rate(),
        load=load(1000.0, 9000.0, 12.0),
        last_change=change(Action.INCREASE_TASKS, 1, 2, lag_seconds=500.0),
        update=JobUpdate(at=NOW.replace(day=9), author="ann"),
    )
    assert grew == [
        "Symptom: lag. The job has 2 tasks and is 120 s behind; the SLO is 90 s.",
        "What comes in: 1,000 rows/s. What waits: 9,000 rows, and that changes by +12 rows/s.",
        "Estimate: a busy task does 100 rows/s, measured in 60 busy minutes.",
        "Past days: not looked at.",
        "Last change: from 1 to 2 tasks at 2026-01-10 11:50 UTC.",
        "Last update: by ann at 2026-01-09 12:00 UTC.",
        "The job gets more tasks: lag of 120 s is over the SLO of 90 s; 1,000 rows/s come in and 9,000 wait, to be "
        "worked off in 900 s; planned with 100 rows/s for each task, the estimate; from 2 to 10 tasks.",
        "Limit: 13 tasks are needed, and it may have 10 by its max_task_count of 10.",
    ]


@pytest.mark.parametrize(
    ("processed", "known", "planned"),
    [
        (200.0, {}, "planned with 100 rows/s for each task, the estimate"),
        (120.0, {}, "planned with 60 rows/s for each task, which each does now"),
        (300.0, {}, "planned with 150 rows/s for each task, which each does now"),
        (
            200.0,
            {"load": load(190.0, 0.0), "last_change": change(Action.DECREASE_TASKS, 4, 2)},
            "planned with 98 rows/s for each task, as the last decrease showed",
        ),
    ],
)
def test_the_rate_that_is_planned_with_is_not_called_the_estimate(
    processed: float, known: dict[str, Any], planned: str
) -> None:
    """It may be another one: no two rates have the same words."""
    facts = {"rate": rate(), "load": load(1000.0, 9000.0, 12.0), **known}
    told = why(symptoms(120.0, processed_rows_per_second=processed), job(2, max_task_count=10), **facts)
    assert any(planned in sentence for sentence in told)
    assert [sentence for sentence in told if "task does" in sentence] == [
        "Estimate: a busy task does 100 rows/s, measured in 60 busy minutes."
    ]


def test_health_is_told_with_past_days_and_what_speaks_against_a_reduction() -> None:
    kept = why(
        symptoms(),
        job(4),
        rate=rate(busy=2, is_lower_bound=True),
        load=load(100.0, None),
        workload=past(soon=200.0, ahead=330.0),
        day=QUIET,
    )
    assert kept[:4] == [
        "Symptom: none. The job has 4 tasks and is 0 s behind; the SLO is 90 s.",
        "What comes in: 100 rows/s. What waits: unknown.",
        "Estimate: a busy task does at least 100 rows/s; there were only 2 busy minutes.",
        "Past days: 3 compared. At this time up to 330 rows/s came in within 240 minutes, and usually 200 within 30.",
    ]
    assert kept[4:] == [
        "Nothing is done: healthy.",
        "Limit: it needs 4 tasks, by what comes in and what past days had.",
    ]


PARTS = {
    "a profile": (
        symptoms(),
        {"rate": rate(busy=2, of_profile=True)},
        "Estimate: a busy task does 100 rows/s, by a profile; there were only 2 busy minutes.",
    ),
    "slower lately": (
        symptoms(),
        {"rate": rate().model_copy(update={"latest_rows_per_second": 60.0})},
        "Estimate: a busy task does 100 rows/s, and lately 60, measured in 60 busy minutes.",
    ),
    "disk": (
        symptoms(),
        {"uses": (Use(dimension="disk_bytes", of_task=3000.0, of_container=12_000.0),)},
        "disk_bytes: the task that uses most takes 3,000, 25.0% of the smallest container.",
    ),
    "unknown": (symptoms(None, tasks_measured=1), {}, "Symptom: unknown. The job has 2 tasks; measured: 1."),
    "memory": (
        symptoms(out_of_memory=True),
        {},
        "Symptom: out of memory. In the last minutes a task ended because it lacked memory; the job has 2 tasks.",
    ),
    "no past day": (symptoms(), {"workload": past(days=0)}, "Past days: none is known."),
    "unusual": (
        symptoms(),
        {"workload": past(900.0)},
        "Past days: 3 compared, but the last 30 minutes are unlike them.",
    ),
    "not known whether unusual": (
        symptoms(),
        {"workload": past(None)},
        "Past days: 3 compared, but the last 30 minutes are not known.",
    ),
    "untriaged": (
        symptoms(100.0),
        {"last_change": change(Action.UNDO, 4, 2)},
        "The cause is unknown, so there is an alert, and people must look.",
    ),
}


@pytest.mark.parametrize(("found", "known", "sentence"), PARTS.values(), ids=PARTS.keys())
def test_what_else_is_said(found: JobSymptoms, known: dict[str, Any], sentence: str) -> None:
    assert sentence in why(found, job(2), **known)


def test_a_lag_is_not_told_as_the_reason_to_do_nothing() -> None:
    inputs = DecisionInputs(**situation(symptoms(120.0), job(2), state())._asdict())
    found = sentences(
        inputs, nothing(Symptom.LAG, "lag of 120 s is over the SLO of 90 s", "100 s of 300 s have passed")
    )
    assert found[-2:] == [
        "Nothing is done, although there is a symptom: lag of 120 s is over the SLO of 90 s.",
        "Limit: 100 s of 300 s have passed.",
    ]
