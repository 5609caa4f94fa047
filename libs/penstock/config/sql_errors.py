"""What a parser of SQL finds wrong with a text, for people: the place, the piece of text and the reason. Pure."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import NamedTuple

from sqlglot.errors import ParseError, SqlglotError

_AT_START = re.compile(r"Missing (\S+) from \d+:(\d+)")
_NOISE = re.compile(r" but got <Token.*| for <class.*", re.DOTALL)
_NEEDED = re.compile(r"(?:Expecting|Expected) ([()\[\]{},])")
_WORDS = {
    "Invalid expression / Unexpected token": "this word or sign cannot stand here",
    "Expected table name": "the name of a table must follow",
}
_CUT_OFF = "a value or an expression is missing"
_MOST_SHOWN = 40
_FIRST_WORD = re.compile(r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*([A-Za-z_]+)", re.DOTALL)
_BEGINNINGS = ("SELECT", "WITH", "FROM")
_KEYWORDS = (
    *(
        "AS",
        "BY",
        "CASE",
        "CROSS",
        "DISTINCT",
        "EXCEPT",
        "FROM",
        "FULL",
        "GROUP",
        "HAVING",
        "INNER",
        "INTERSECT",
        "JOIN",
    ),
    *("LATERAL", "LEFT", "LIMIT", "ORDER", "OUTER", "RIGHT", "SELECT", "UNION", "USING", "VALUES", "WHERE", "WITH"),
)
"""Those that a query most often has; a misspelt one is told by the nearest of them."""
_ALIKE = 0.74
"""FORM is as much like FROM as 0.75."""


class Frame(NamedTuple):
    """A text as it is parsed: what somebody wrote, with what stands before and after it."""

    before: str
    own: str
    after: str = ""

    @property
    def whole(self) -> str:
        """What is parsed."""
        return self.before + self.own + self.after


def in_words(error: SqlglotError, text: Frame) -> str:
    """One line: `line 1, column 7, at ">": a value or an expression is missing`."""
    if isinstance(error, ParseError) and error.errors:
        found = error.errors[0]
        word = str(found.get("highlight") or "")
        index = _index(text.whole, int(found.get("line") or 1), int(found.get("col") or 1)) - len(word) + 1
        told = f"{_place(text, index, word)}: {_reason(str(found.get('description') or ''))}"
        return _first_word(text, index, told) + _misspelt(text, index)
    opened = _AT_START.search(str(error.__cause__))
    if opened is not None:
        return f"{_place(text, int(opened[2]), opened[1])}: it is opened here and never closed"
    return "a comment or a text is opened and never closed"


def _first_word(text: Frame, index: int, told: str) -> str:
    """What is told, after the first word of a query where no query begins so: all after it is read otherwise."""
    found = _FIRST_WORD.match(text.own)
    if text.before or found is None or found.start(1) >= index or found[1].upper() in (*_BEGINNINGS, "VALUES"):
        return told
    near = get_close_matches(found[1].upper(), _BEGINNINGS, n=1)
    meant = f"; do you mean {near[0]}?" if near else ""
    first = f"{_place(text, found.start(1), found[1])}: a query begins with {' or '.join(_BEGINNINGS)}{meant}"
    return f"{first} Then {told}" if meant else f"{first}; then {told}"


def _misspelt(text: Frame, index: int) -> str:
    """The keyword that the word before the place, or there, may be."""
    words = re.findall(r"\w+", text.whole[len(text.before) : index])[-1:] + re.findall(r"\w+", text.whole[index:])[:1]
    for word in words:
        near = get_close_matches(word.upper(), _KEYWORDS, n=1, cutoff=_ALIKE)
        if near and not word.upper().startswith(near[0]):
            return f"; is {word} to be {near[0]}?"
    return ""


def _index(whole: str, line: int, column: int) -> int:
    lines = whole.split("\n")
    return sum(len(each) + 1 for each in lines[: line - 1]) + column - 1


def _place(text: Frame, index: int, word: str) -> str:
    """Where it is in what somebody wrote. What stands after that is its end."""
    within = index - len(text.before)
    if within >= len(text.own):
        return f'at the end, after "{_shown(text.own[-_MOST_SHOWN:].strip())}"'
    if within < 0:
        return "at the begin"
    line, column = text.own.count("\n", 0, within) + 1, within - text.own.rfind("\n", 0, within)
    return f'line {line}, column {column}, at "{_shown(word)}"'


def _shown(text: str) -> str:
    shown = " ".join(text.split())
    return shown if len(shown) <= _MOST_SHOWN else f"{shown[:_MOST_SHOWN]}..."


def _reason(description: str) -> str:
    """Without the names of the parser's classes."""
    needed = _NEEDED.match(description)
    if needed is not None:
        return f"{needed[1]} is missing"
    if description.startswith("Required keyword"):
        return _CUT_OFF
    plain = _NOISE.sub("", description)
    return _WORDS.get(plain, " ".join(plain.split()) or "it cannot be read")
