"""Texts that the store and messages can carry. Spark and Python have texts that Postgres and UTF-8 refuse. Pure.

Also lists of names in messages: the first few, and how many more there are; which of them an unknown one may mean.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import BeforeValidator

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_REPLACEMENT = "\ufffd"
_MOST_NAMED = 5
LONGEST_COMPARED = 100
"""Longer names are compared with no others: that takes time as their length does."""
MOST_COMPARED = 200
"""An unknown name is compared with no more names than these."""
MOST_GUESSES = 5
"""At most so many unknown names of one check are compared with what there is."""


def clean(text: str) -> str:
    """The text with U+FFFD in place of each NUL and lone surrogate: neither is text for Postgres."""
    return _UNSTORABLE.sub(_REPLACEMENT, text)


def shown(text: str) -> str:
    """The text with U+FFFD in place of what a terminal would obey: control characters but tabs and ends of lines."""
    return _CONTROL.sub(_REPLACEMENT, text)


def cleaned(value: Any) -> Any:
    """A value in which all texts are clean, also those inside maps and lists, and the keys of maps."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {cleaned(key): cleaned(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(inner) for inner in value]
    return value


def cut(text: str, limit: int) -> str:
    """The text, or as much of its beginning as ends between two words and has no more than `limit` characters, with
    `...` after it. So no number is shown as a shorter one. A text of one long word is cut in it."""
    if len(text) <= limit:
        return text
    kept = text[: limit + 1].rpartition(" ")[0].rstrip() or text[:limit]
    return f"{kept} ..."


def first_few(names: Collection[str], separator: str = ", ") -> str:
    """The first five names and the number of the others: `a, b, c, d, e and 2 more`."""
    others = len(names) - _MOST_NAMED
    more = f"{separator.rstrip(', ')} and {others} more" if others > 0 else ""
    return separator.join(list(names)[:_MOST_NAMED]) + more


def near(name: str, known: Collection[str]) -> str:
    """What an unknown name may mean: `do you mean flights?`; empty where nothing is near. Longer names than
    `LONGEST_COMPARED`, and more than `MOST_COMPARED`, are not compared. Pure."""
    if len(name) > LONGEST_COMPARED or len(known) > MOST_COMPARED:
        return ""
    by_lower = {each.lower(): each for each in sorted(known)}
    found = [by_lower[each] for each in get_close_matches(name.lower(), by_lower, n=3)]
    return f"do you mean {' or '.join(found)}?" if found else ""


def likely(name: str, known: Collection[str]) -> str:
    """As `near`, and what there is: `do you mean flights? There are: a, b, flights`. Pure."""
    if not known:
        return "there are none"
    meant = near(name, known)
    return f"{meant} There are: {_few_of(known)}" if meant else f"there are: {_few_of(known)}"


class Guesses:
    """What the unknown names of one check may mean: of the first `MOST_GUESSES`. A small text may have thousands of
    unknown names, and each would be compared with all that there are."""

    def __init__(self) -> None:
        self._left = MOST_GUESSES

    def likely(self, name: str, known: Collection[str]) -> str:
        """As `likely`; later ones are told only how many there are."""
        if self._is_spent():
            return f"there are {len(known) or 'none'}"
        return likely(name, known)

    def near(self, name: str, known: Collection[str]) -> str:
        """As `near`; empty for later ones."""
        return "" if self._is_spent() else near(name, known)

    def _is_spent(self) -> bool:
        self._left -= 1
        return self._left < 0


def _few_of(names: Collection[str]) -> str:
    return first_few(sorted(names))


Text = Annotated[str, BeforeValidator(cleaned)]
"""A text that others wrote, such as the message of an error. A bad character in it must not refuse what it is in."""
Json = Annotated[dict[str, Any], BeforeValidator(cleaned)]
"""A JSON object that others wrote; its texts are clean."""
