"""Which series a call may ask for: tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from penstock.control.errors import InvalidConfig
from penstock.model.job_metrics import JOB_METRICS, JobMinutes
from services.job_service.series import MOST_POINTS, Span, known_metrics, series_of, span_of

NOW = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)
NOON = NOW.replace(second=0)


def ask(**given: Any) -> Span:
    return span_of(**({"since": None, "until": None, "step_seconds": None, "now": NOW} | given))


def test_by_default_all_metrics_of_the_last_hour_by_minute() -> None:
    assert ask() == Span(NOON - timedelta(hours=1), NOON, 1)
    assert known_metrics(()) == list(JOB_METRICS)


def test_a_last_step_may_be_shorter() -> None:
    assert ask(since=NOON - timedelta(minutes=5), step_seconds=120).steps == 3
    assert ask(since=NOON - timedelta(minutes=4), step_seconds=120).steps == 2


@pytest.mark.parametrize(
    ("minutes", "step_seconds", "step_minutes"),
    [(MOST_POINTS, None, 1), (MOST_POINTS, 60, 1), (MOST_POINTS + 1, None, 2), (14 * 1440, None, 14), (60, 600, 10)],
)
def test_the_shortest_step_gives_few_enough_points(minutes: int, step_seconds: int | None, step_minutes: int) -> None:
    found = ask(since=NOW - timedelta(minutes=minutes), step_seconds=step_seconds)
    assert found.step_minutes == step_minutes


@pytest.mark.parametrize(
    ("given", "field", "rule"),
    [
        ({"since": NOW}, "from", "before_to"),
        ({"since": NOW - timedelta(days=32)}, "from", "most_days"),
        ({"since": NOW - timedelta(minutes=MOST_POINTS + 1), "step_seconds": 60}, "step_seconds", "most_points"),
        ({"since": datetime.min.replace(tzinfo=timezone(timedelta(hours=9)))}, "from", "not_in_future"),
        ({"until": datetime.max.replace(tzinfo=timezone(timedelta(hours=-9)))}, "to", "not_in_future"),
        ({"until": NOW + timedelta(days=2)}, "to", "not_in_future"),
    ],
)
def test_what_cannot_be_answered_is_refused(given: dict[str, Any], field: str, rule: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        ask(**given)
    assert (refused.value.field, refused.value.rule) == (field, rule)


def test_a_metric_that_does_not_exist_is_refused() -> None:
    assert [each.name for each in known_metrics(["lag_seconds"])] == ["lag_seconds"]
    with pytest.raises(InvalidConfig) as refused:
        known_metrics(["lag_seconds", "lag"])
    assert (refused.value.field, refused.value.rule) == ("metric", "known")


def test_the_answer_has_a_value_of_each_step() -> None:
    of = ask(since=NOON - timedelta(minutes=3), step_seconds=120)
    found = series_of("j", of, known_metrics(["lag_seconds"]), JobMinutes(of.since, {"lag_seconds": (1.0, 2.0, None)}))
    assert (found.since, found.until, found.step_seconds) == (of.since, NOON, 120)
    assert [each.model_dump() for each in found.series] == [
        {"metric": "lag_seconds", "unit": "s", "values": [2.0, None]}
    ]
