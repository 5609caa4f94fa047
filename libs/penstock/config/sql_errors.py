"""What a parser of SQL finds wrong with a text, for people: the place, the piece of text and the reason. Pure."""

from __future__ import annotations

import re
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
        return f"{_place(text, index, word)}: {_reason(str(found.get('description') or ''))}"
    opened = _AT_START.search(str(error.__cause__))
    if opened is not None:
        return f"{_place(text, int(opened[2]), opened[1])}: it is opened here and never closed"
    return "a comment or a text is opened and never closed"


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
