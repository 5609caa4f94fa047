"""Malformed records: counts of progress records to the reason of an alert."""

from __future__ import annotations

import pytest

from penstock.config.model import JobConfig
from penstock.model.alerts import AlertKind
from penstock.spark.measure.malformed import Count, Counts, reason, recent, with_count
from tests.support.config.jobs import job

FIRST_FIVE = ((0.0, 5), (10.0, 5))


@pytest.mark.parametrize(
    ("told", "came"),
    [
        ((), 0),
        (((0.0, 0),), 0),
        (FIRST_FIVE, 5),
        ((*FIRST_FIVE, (200.0, 7)), 7),
        ((*FIRST_FIVE, (200.0, 7), (330.0, 7)), 2),
        ((*FIRST_FIVE, (200.0, 7), (600.0, 7)), 0),
        ((*FIRST_FIVE, (20.0, 2)), 2),
    ],
)
def test_those_of_the_last_five_minutes_count(told: tuple[tuple[float, int], ...], came: int) -> None:
    counts: Counts = ()
    for at, records in told:
        counts = with_count(counts, Count(at, records))
    assert recent(counts) == came


def test_the_reason_says_where_they_are() -> None:
    counts = with_count((), Count(0.0, 3))
    assert reason((), "j", JobConfig.model_validate(job())) == {}
    text = reason(counts, "j", JobConfig.model_validate(job()))[AlertKind.MALFORMED_RECORDS]
    assert text == "3 malformed records in 5 minutes; those with malformed dead_letter are in the topic j.dead-letters"
    one = reason(with_count((), Count(0.0, 1)), "j", JobConfig.model_validate(job()))
    assert one[AlertKind.MALFORMED_RECORDS].startswith("1 malformed record in 5 minutes")
    config = JobConfig.model_validate(job({"inputs": {"flights": {"malformed": "null"}}}))
    assert "as nulls" in reason(counts, "j", config)[AlertKind.MALFORMED_RECORDS]
    config = JobConfig.model_validate(job({"dead_letter_topic": "bad"}))
    assert reason(counts, "j", config)[AlertKind.MALFORMED_RECORDS].endswith("topic bad")
