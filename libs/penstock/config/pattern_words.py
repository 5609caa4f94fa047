"""What the patterns of texts say, in words and with an example: a regular expression helps nobody who mistypes a name.

Pure. A test asks for words for the pattern of each field of a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.config.names import NAME, NAME_EXAMPLE
from penstock.config.starting import INPUT_POSITION, POSITION

_PART = r"[A-Za-z_][A-Za-z0-9_]{0,62}"
_WORDS = {
    NAME: "1 to 100 lower case letters, digits, dots, dashes and underscores, beginning and ending with a letter or "
    f"digit, such as {NAME_EXAMPLE}",
    rf"^{_PART}$": "1 to 63 letters, digits and underscores, not beginning with a digit, such as late_rows",
    rf"^{_PART}(\.{_PART})?$": "a table or schema.table of letters, digits and underscores, such as public.orders",
    r"^[A-Za-z0-9._-]{1,249}$": "1 to 249 letters, digits, dots, dashes and underscores, such as orders.eu",
    r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$": "a module of the package and its function, such as "
    "orders.jobs:totals",
    r"^[A-Za-z0-9][A-Za-z0-9.+!_-]{0,99}$": "1 to 100 letters, digits and . + ! _ -, beginning with a letter or digit, "
    "such as 1.4.2",
    r"^sha256:[0-9a-f]{64}$": "sha256: and 64 hexadecimal digits, as `penstock packages pack` prints it",
    r"^\d{1,9} (second|minute|hour|day)s?$": "a number and seconds, minutes, hours or days, such as 10 minutes",
    POSITION: "earliest, latest, or a time with its offset from UTC, such as 2026-01-31T08:00:00Z",
    INPUT_POSITION: "earliest, latest, a time with its offset from UTC, or the first offset of each key group, such as "
    "0:120,1:95",
    # Of the header If-Match.
    r'^"(0|[1-9][0-9]{0,17})"$': 'a version in double quotes, such as "3"',
    r'^(\*|"(0|[1-9][0-9]{0,17})")$': 'a version in double quotes, such as "3", or *',
    r"^(/[^/]+)+$": "the names of fields with a slash before each, such as /order/at",
    r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$": "the full name of a message, such as shop.v1.Order",
}


def words_of(pattern: str) -> str | None:
    """What a text of this pattern is; None for a pattern that is not known here."""
    return _WORDS.get(pattern)


def message_of(found: Mapping[str, Any]) -> str:
    """The message of one of pydantic's errors, in words where it has a pattern that is known."""
    pattern = (found.get("ctx") or {}).get("pattern")
    words = words_of(pattern) if isinstance(pattern, str) else None
    return str(found["msg"]) if words is None else f"it must be {words}"
