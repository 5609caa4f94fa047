"""Malformed records, and event times that are null: counts of progress records to the reasons of alerts."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.model import JobConfig
from penstock.model.alerts import INPUT_ALERTS, AlertKind
from penstock.spark.measure.malformed import Count, Counts, Seen, reason, recent, with_count
from tests.support.config.jobs import job

FIRST_FIVE = ((0.0, 5), (10.0, 5))
TIMED = {"event_time_column": "time", "watermark_delay": "1 hour"}


def counts_of(*told: tuple[float, Seen]) -> Counts:
    counts: Counts = ()
    for at, seen in told:
        counts = with_count(counts, Count(at, {"flights": seen}))
    return counts


@pytest.mark.parametrize(
    ("told", "came"),
    [
        (((0.0, 0),), 0),
        (FIRST_FIVE, 5),
        ((*FIRST_FIVE, (200.0, 7)), 7),
        ((*FIRST_FIVE, (200.0, 7), (330.0, 7)), 2),
        ((*FIRST_FIVE, (200.0, 7), (600.0, 7)), 0),
        ((*FIRST_FIVE, (20.0, 2)), 2),
    ],
)
def test_those_of_the_last_five_minutes_count(told: tuple[tuple[float, int], ...], came: int) -> None:
    counts = counts_of(*((at, Seen(10 * records, records)) for at, records in told))
    assert recent(counts) == {"flights": Seen(10 * came, came)}
    assert recent(()) == {}


def test_batches_that_follow_fast_keep_few_counts_and_lose_none() -> None:
    """1. A batch each tenth of a second for ten minutes. 2. An input that comes later counts from zero."""
    counts = counts_of(*((at / 10, Seen(at, at)) for at in range(6_001)))
    assert len(counts) <= 33
    assert 3_000 <= recent(counts)["flights"].records <= 3_100
    both = with_count(counts, Count(601.0, {"flights": Seen(6_001, 6_001), "late": Seen(4, 1)}))
    assert recent(both)["late"] == Seen(4, 1)


def never_asked() -> bool:
    raise AssertionError("the plan was read")


def told(seen: Seen, **source: Any) -> dict[str, str]:
    """The alerts of a job whose input has these fields, by what came in five minutes."""
    config = JobConfig.model_validate(job({"inputs": {"flights": source}}))
    return reason(counts_of((0.0, Seen()), (60.0, seen)), "j", config, lambda: True)


@pytest.mark.parametrize(
    ("seen", "source", "is_told"),
    [
        (Seen(1, 1), {}, True),
        (Seen(1_000, 1), {}, False),
        (Seen(999, 1), {}, True),
        (Seen(10**9, 99), {}, False),
        (Seen(10**9, 100), {}, True),
        (Seen(10**9, 1), {"malformed_alert_share": 0}, True),
        (Seen(10, 5), {"malformed_alert_share": 0.5}, False),
        (Seen(10, 6), {"malformed_alert_share": 0.5}, True),
        (Seen(10, 5), {"malformed_alert_share": 1, "malformed_alert_records": 5}, True),
        (Seen(10, 0), {"malformed_alert_share": 0, "malformed_alert_records": 1}, False),
    ],
)
def test_a_share_or_a_number_of_malformed_records_is_told(seen: Seen, source: dict[str, Any], is_told: bool) -> None:
    assert (AlertKind.MALFORMED_RECORDS in told(seen, **source)) == is_told


def test_the_reason_has_the_share_and_says_where_they_are() -> None:
    def text(**source: Any) -> str:
        return told(Seen(1_200, 3), **source)[AlertKind.MALFORMED_RECORDS]

    begin = "inputs.flights: 3 of 1,200 records (0.25 %) were malformed in 5 minutes; "
    assert text() == f"{begin}they are in the topic j.dead-letters"
    whole = told(Seen(1_200, 1_200))[AlertKind.MALFORMED_RECORDS]
    assert whole.startswith("inputs.flights: 1,200 of 1,200 records (100 %) were malformed")
    assert text(malformed="null") == f"{begin}the query has them as nulls"
    config = JobConfig.model_validate(job({"dead_letter_topic": "bad"}))
    both = reason((Count(0.0, {}), Count(1.0, {"flights": Seen(2, 1), "gone": Seen(2, 1)})), "j", config, never_asked)
    assert both[AlertKind.MALFORMED_RECORDS].endswith(
        "1 of 2 records (50 %) were malformed in 5 minutes; they are in the topic bad"
    )


@pytest.mark.parametrize(
    ("seen", "is_told"),
    [
        (Seen(8, 0, 8), True),
        (Seen(20, 12, 8), True),
        (Seen(8, 0, 7), False),
        (Seen(7, 0, 7), False),
        (Seen(20, 13, 7), False),
        (Seen(20, 20, 0), False),
    ],
)
def test_an_input_of_which_no_record_has_an_event_time_is_told(seen: Seen, is_told: bool) -> None:
    """Of eight whole records and more. Not where the input has no event time."""
    assert AlertKind.NO_EVENT_TIME in INPUT_ALERTS
    found = told(seen, **TIMED)
    assert (AlertKind.NO_EVENT_TIME in found) == is_told
    assert AlertKind.NO_EVENT_TIME not in told(seen, event_time_column=None, watermark_delay=None)
    if is_told:
        assert "inputs.flights: time was null in all 8 records of 5 minutes" in found[AlertKind.NO_EVENT_TIME]


def test_null_as_event_time_is_not_told_where_the_query_does_not_go_by_it() -> None:
    """The plan is read only where an input has no event time at all."""
    config = JobConfig.model_validate(job({"inputs": {"flights": TIMED}}))
    assert reason(counts_of((0.0, Seen()), (60.0, Seen(8, 0, 8))), "j", config, lambda: False) == {}
    assert reason(counts_of((0.0, Seen()), (60.0, Seen(8, 0, 7))), "j", config, never_asked) == {}
