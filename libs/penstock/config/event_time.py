"""How late a row may be: the text of `Input.watermark_delay` as a number."""

from __future__ import annotations

LONGEST_DELAY_DAYS = 3650
"""Far less than what Spark can hold as an interval."""
LONGEST_DELAY_MILLIS = LONGEST_DELAY_DAYS * 86_400 * 1000
_SECONDS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}


def delay_millis(watermark_delay: str) -> int:
    """`10 minutes` in milliseconds; the form is that of `Input.watermark_delay`."""
    number, unit = watermark_delay.split()
    return int(number) * _SECONDS[unit.removesuffix("s")] * 1000
