"""Figures as people read them: tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from services.console.views import words

NOW = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "0"), (0.25, "0.25"), (1234, "1,234"), (9999.4, "9,999"), (56_700, "56.7 k"), (6e6, "6 M")],
)
def test_numbers(value: float | None, text: str) -> None:
    assert words.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0.0, "0 s"), (0.44, "0.4 s"), (75, "75 s"), (300, "5 min"), (9000, "2.5 h"), (400_000, "5 d")],
)
def test_seconds(value: float | None, text: str) -> None:
    assert words.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "bytes", "–"),
        (None, "rows/s", "–"),
        (512, "bytes", "512 B"),
        (1.5 * 2**30, "bytes", "1.5 GiB"),
        (2048, "bytes/s", "2 KiB/s"),
        (0.042, "", "4.2 %"),
        (None, "", "–"),
        (3, "tasks", "3 tasks"),
    ],
)
def test_figures_with_their_units(value: float | None, unit: str, text: str) -> None:
    assert words.with_unit(value, unit) == text


@pytest.mark.parametrize(
    ("passed", "text"),
    [(0.2, "now"), (12, "12 s ago"), (7200, "2 h ago"), (-1800, "in 30 min")],
)
def test_times(passed: float, text: str) -> None:
    assert words.ago(NOW - timedelta(seconds=passed), NOW) == text
    assert words.ago(None, NOW) == "–"


def test_a_field_breaks_between_words_only() -> None:
    assert words.breakable("slo.max_<b>") == "slo.<wbr>max_<wbr>&lt;b&gt;"


def test_a_value_that_is_an_empty_text_is_seen() -> None:
    assert [words.value(each) for each in ("", "a", 3.0, None)] == ['""', "a", "3", words.UNKNOWN]
