"""What no log line and no error may show: passwords in URLs, and values that a process was told to keep."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

HIDDEN = "***"
SHORTEST = 6
"""A value with fewer characters is not looked for in texts: it would be found in words."""
_IN_URL = re.compile(r"(\w://[^\s:/@]*:)[^\s/@]+(?=@)")
_PASSWORD = re.compile(r"((?:password|oauth_client_secret)\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&'\",)]+)", re.IGNORECASE)


def mask_urls(text: str) -> str:
    """The text without the passwords of URLs and of libpq's options (`password=`, `sslpassword=`...). Pure."""
    if "://" not in text and "=" not in text:
        return text
    return _PASSWORD.sub(rf"\1{HIDDEN}", _IN_URL.sub(rf"\1{HIDDEN}", text))


class Masks:
    """The values that a process keeps, for as long as it lives. Safe from any thread: values are only added, in one
    step that no other Python code interrupts."""

    def __init__(self) -> None:
        self._kept: dict[str, None] = {}
        self._ordered: tuple[str, ...] = ()

    def add(self, values: Iterable[str]) -> None:
        """From now on `apply` hides these, each of their lines, and their forms in JSON."""
        self._kept.update({form: None for value in values for form in _forms(value)})

    def apply(self, text: str) -> str:
        """The text with `***` in place of each value, and as `mask_urls` leaves it."""
        for value in self._longest_first():
            text = text.replace(value, HIDDEN)
        return mask_urls(text)

    def _longest_first(self) -> tuple[str, ...]:
        """A value may be part of another."""
        ordered = self._ordered
        if len(ordered) != len(self._kept):
            ordered = self._ordered = tuple(sorted(self._kept, key=lambda each: (-len(each), each)))
        return ordered


def _forms(value: str) -> Iterable[str]:
    for part in (value, value.strip(), *value.splitlines()):
        if len(part) >= SHORTEST:
            yield part
            yield json.dumps(part, ensure_ascii=False)[1:-1]
            yield json.dumps(part)[1:-1]
