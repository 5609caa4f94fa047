"""How late a row may be, as a number, and how records write their event time. Pure."""

from __future__ import annotations

import re

LONGEST_DELAY_DAYS = 3650
"""Far less than what Spark can hold as an interval."""
LONGEST_DELAY_MILLIS = LONGEST_DELAY_DAYS * 86_400 * 1000
EPOCH_UNITS = {"epoch_seconds": "seconds", "epoch_millis": "milliseconds"}
"""The values of `Input.event_time_format` and of `timestamp_format` of an output that are no pattern of Spark."""
_QUOTED = re.compile(r"'[^']*'")
_SECONDS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}


def delay_millis(watermark_delay: str) -> int:
    """`10 minutes` in milliseconds; the form is that of `Input.watermark_delay`."""
    number, unit = watermark_delay.split()
    return int(number) * _SECONDS[unit.removesuffix("s")] * 1000


def wrong_format(event_time_format: str) -> str | None:
    """Why the value of `Input.event_time_format`, or of `timestamp_format` of an output, cannot tell a time; None if it
    may. Spark reads its letters later."""
    if event_time_format in EPOCH_UNITS:
        return None
    if event_time_format.lower().startswith("epoch"):
        return "the numbers since 1970 are epoch_seconds and epoch_millis"
    if event_time_format.count("'") % 2:
        return "a quote is not closed"
    letters = set(_QUOTED.sub("", event_time_format))
    has_day = "D" in letters or ({"M", "L"} & letters and "d" in letters)
    if not {"y", "u"} & letters or not has_day:
        return "a pattern needs year, month and day, such as yyyy-MM-dd HH:mm:ss"
    if {"h", "K"} & letters and "a" not in letters:
        return "hours of half a day (h, K) need a for AM or PM; HH are hours of the day"
    return None
