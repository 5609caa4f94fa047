"""Figures and times as people read them. Unknown is a dash, never zero. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from markupsafe import Markup, escape

UNKNOWN = "–"
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB")
_THOUSANDS = ("", "k", "M", "G", "T")
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
_LONGEST_VALUE = 160
_BETWEEN_WORDS = re.compile(r"([._])")


def number(value: float | None) -> str:
    """`1,234`, `56.7 k`, `0.25`."""
    if value is None:
        return UNKNOWN
    if abs(value) < 10_000:
        return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.2f}".rstrip("0").rstrip(".")
    power = 0
    while abs(value) >= 1000 and power < len(_THOUSANDS) - 1:
        value, power = value / 1000, power + 1
    return f"{value:.1f} {_THOUSANDS[power]}".replace(".0 ", " ")


def seconds(value: float | None) -> str:
    """`0.4 s`, `12 s`, `3 min`, `2.5 h`, `4 d`."""
    if value is None:
        return UNKNOWN
    if abs(value) < 10:
        return f"{value:.1f}".removesuffix(".0") + " s"
    if abs(value) < 2 * _MINUTE:
        return f"{value:.0f} s"
    if abs(value) < 2 * _HOUR:
        return f"{value / _MINUTE:.0f} min"
    if abs(value) < 2 * _DAY:
        return f"{value / _HOUR:.1f}".removesuffix(".0") + " h"
    return f"{value / _DAY:.0f} d"


def size(value: float | None) -> str:
    """Bytes: `512 B`, `1.5 GiB`."""
    if value is None:
        return UNKNOWN
    power = 0
    while abs(value) >= 1024 and power < len(_BYTES) - 1:
        value, power = value / 1024, power + 1
    return f"{value:.1f}".removesuffix(".0") + f" {_BYTES[power]}"


def percent(share: float | None) -> str:
    """A share of one: `12 %`, `0.4 %`."""
    if share is None:
        return UNKNOWN
    value = share * 100
    return f"{value:.1f} %" if 0 < value < 10 and value != int(value) else f"{value:.0f} %"


def with_unit(value: float | None, unit: str) -> str:
    """A figure of a metric, by its unit."""
    if unit == "s":
        return seconds(value)
    if unit == "bytes":
        return size(value)
    if unit == "bytes/s":
        return UNKNOWN if value is None else f"{size(value)}/s"
    if unit == "":
        return percent(value)
    return UNKNOWN if value is None else f"{number(value)} {unit}"


def ago(moment: datetime | None, now: datetime) -> str:
    """`12 s ago`, `in 2 h`; nothing for no moment."""
    if moment is None:
        return UNKNOWN
    passed = (now - moment).total_seconds()
    if abs(passed) < 1:
        return "now"
    return f"{seconds(float(int(passed)))} ago" if passed > 0 else f"in {seconds(float(int(-passed)))}"


def clock(moment: datetime | None) -> str:
    """`2026-11-25 22:51:56 UTC`."""
    return UNKNOWN if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def value(content: Any) -> str:
    """A value of a configuration: a text as it is, but `""` for an empty one; else JSON; `3.0` is `3`."""
    if content is None:
        return UNKNOWN
    if isinstance(content, float) and content.is_integer():
        return str(int(content))
    return content if isinstance(content, str) and content else json.dumps(content, ensure_ascii=False, default=str)


def is_long(content: Any) -> bool:
    """Whether a value is better folded away."""
    shown = value(content)
    return len(shown) > _LONGEST_VALUE or "\n" in shown


def plain(name: str) -> str:
    """A name of the API as words: `job_lagging` is `job lagging`."""
    return name.replace("_", " ")


_DIMENSIONS = {
    "cpu_cores": "CPU",
    "memory_bytes": "memory",
    "disk_bytes": "disk",
    "network_bytes_per_second": "network",
}


def dimension(name: str) -> str:
    """A dimension of containers as people call it."""
    return _DIMENSIONS.get(name) or plain(name)


def capital(text: str) -> str:
    """The text with a capital letter first."""
    return text[:1].upper() + text[1:]


def breakable(name: str) -> Markup:
    """The dotted name of a field, which a narrow column breaks between words only."""
    return Markup(_BETWEEN_WORDS.sub(r"\1<wbr>", str(escape(name))))


FILTERS: Mapping[str, Callable[..., Any]] = {
    "number": number,
    "seconds": seconds,
    "size": size,
    "percent": percent,
    "with_unit": with_unit,
    "clock": clock,
    "value": value,
    "is_long": is_long,
    "plain": plain,
    "dimension": dimension,
    "capital": capital,
    "breakable": breakable,
}
