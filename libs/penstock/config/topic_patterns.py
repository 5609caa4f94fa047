"""Patterns of topics (`Input.topic_pattern`): what may stand in one, and which topics it matches. Pure.

Python's `re` reads a pattern here, Java's the same text in the source (`io.penstock.kafka.source.topics`). So only what
both read alike may stand in one. Both try one way to match after the other, so a pattern that can match a name in too
many ways is refused: it could keep a process busy for hours.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from penstock.config.declare import MARKS_SUFFIX
from penstock.config.topics import full_topic, topic_and_cluster

LONGEST_PATTERN = 4_000
# Neither a topic nor a pattern has it. A path that begins so has a slash.
_MARK = "~"
_MOST_WAYS = 250**2
# Of all ways together: each may look at as many characters as the name, or the pattern, has. Some 10 ms.
_MOST_STEPS = 20 * _MOST_WAYS
_DEEPEST = 5
# As many as a name has characters.
_WAYS_OF_REPETITION = 250
_CLASS = r"\[\^?-?(?:[A-Za-z0-9](?:-[A-Za-z0-9])?|[._]|\\[.dw-])+-?\]"
_TOKEN = re.compile(
    r"(?P<open>\((?:\?:)?)|(?P<close>\))|(?P<or>\|)"
    rf"|(?P<atom>[A-Za-z0-9_.-]|\\[.dw-]|{_CLASS})"
    r"|(?P<optional>\?)|(?P<exact>\{[0-9]{1,3}\})|(?P<repeated>[*+]|\{[0-9]{1,3},(?:[0-9]{1,3})?\})"
)
# Letters that no repetition follows which allows none.
_PLAIN = re.compile(r"(?:[A-Za-z0-9_-](?![?*{]))*")
_SPECIAL_GROUP = re.compile(r"\(\?(?!:)")
_EXCLUDED = "Topics that are not to be read are named in excluded_topics"
_ALLOWED = r"letters, digits, _ - . [] () | * + ? {}, \. \d and \w"


class _NoPatternError(ValueError):
    """The text says why."""


def problem_of(pattern: str) -> str | None:
    """Why a text is no pattern of topics; None if it is one."""
    body = pattern.removeprefix("^").removesuffix("$")
    reader = _Reader(body)
    try:
        ways = reader.ways()
    except _NoPatternError as error:
        return str(error)
    if ways > _MOST_WAYS or (ways > 1 and ways * min(reader.characters, _WAYS_OF_REPETITION) > _MOST_STEPS):
        return (
            "it can match a name in too many ways, which takes too long with many topics: write at most two of * + "
            "{n,m} one after the other, and fewer with groups of alternatives or ? between them"
        )
    try:
        re.compile(pattern)
    except re.error as error:
        return str(error)
    return None


def regex_of(pattern: str, excluded: Sequence[str] = ()) -> str:
    """The whole expression for the names that an input reads, in the words of both languages."""
    others = ["__", rf".*{re.escape(MARKS_SUFFIX)}$", *(f"{re.escape(name)}$" for name in excluded)]
    return f"(?!{'|'.join(others)})(?:{pattern})"


def regex_of_names(names: Sequence[str]) -> str:
    """The expression for these names and no others."""
    return "|".join(map(re.escape, sorted(names)))


def matches(pattern: str, topic: str, excluded: Sequence[str] = ()) -> bool:
    """Whether an input of this pattern reads a topic, by its name on its cluster. A text that is no pattern matches
    nothing."""
    if topic in excluded:
        return False
    expression = _expression(pattern)
    return expression is not None and expression.fullmatch(topic) is not None


def pattern_name(pattern: str, excluded: Sequence[str], cluster: str | None) -> str:
    """What an input reads by a pattern, as one name among those of topics. `covers` understands it."""
    return full_topic(_MARK.join(["", pattern, *sorted(excluded)]), cluster)


def is_pattern(name: str) -> bool:
    """Whether a name is one of `pattern_name`."""
    return name.startswith(_MARK) and "/" not in name


def covers(name: str, topic: str) -> bool:
    """Whether what is read under a name, of a topic or of a pattern, has the rows of a topic."""
    if not is_pattern(name):
        return name == topic
    (pattern, *excluded), cluster = _parts(name)
    plain, of_topic = topic_and_cluster(topic)
    return cluster == of_topic and matches(pattern, plain, excluded)


def beginning(name: str) -> str:
    """What the full name of each topic begins with that a pattern covers, as far as its text begins plainly."""
    pattern = _parts(name)[0][0].removeprefix("^")
    if "|" in pattern:
        return ""
    plain = _PLAIN.match(pattern)
    assert plain is not None
    return plain[0]


def name_for_people(name: str) -> str:
    """A name for people: of a pattern its text, with the cluster."""
    if not is_pattern(name):
        return name
    (pattern, *_), cluster = _parts(name)
    return full_topic(pattern, cluster)


def _parts(name: str) -> tuple[list[str], str | None]:
    marked, cluster = topic_and_cluster(name)
    return marked.split(_MARK)[1:], cluster


@lru_cache(maxsize=256)
def _expression(pattern: str) -> re.Pattern[str] | None:
    return None if problem_of(pattern) else re.compile(regex_of(pattern), re.ASCII)


class _Reader:
    """Reads a pattern once, and counts the ways in which it can match one name: the product over what stands one after
    the other, the sum over alternatives."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._place = 0
        self._depth = 0
        self.characters = 0
        """How many the pattern names one by one, in all its alternatives."""

    def ways(self) -> int:
        """Raises _NoPatternError."""
        ways = self._alternatives()
        if self._place < len(self._pattern):
            raise _NoPatternError("a parenthesis is closed that was not opened")
        return ways

    def _alternatives(self) -> int:
        ways = self._sequence()
        while self._take("or"):
            ways += self._sequence()
        return ways

    def _sequence(self) -> int:
        ways = 1
        while (token := self._next()) is not None and token.lastgroup in ("atom", "open"):
            self._place = token.end()
            ways *= self._group() if token.lastgroup == "open" else self._atom()
            # The product may be a number of thousands of digits.
            ways = min(ways, _MOST_WAYS + 1)
        if token is not None and token.lastgroup not in ("or", "close"):
            raise _NoPatternError(f"{token.group()} stands behind nothing that it could repeat")
        return ways

    def _atom(self) -> int:
        token = self._next()
        self.characters += int(token.group()[1:-1]) if token is not None and token.lastgroup == "exact" else 1
        if self._take("repeated"):
            return _WAYS_OF_REPETITION
        if self._take("optional"):
            return 2
        self._take("exact")
        return 1

    def _group(self) -> int:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _NoPatternError(f"groups stand in each other, more than {_DEEPEST} deep")
        ways = self._alternatives()
        if not self._take("close"):
            raise _NoPatternError("a parenthesis is not closed")
        self._depth -= 1
        if self._take("optional"):
            return ways + 1
        token = self._next()
        if token is not None and token.lastgroup in ("exact", "repeated"):
            raise _NoPatternError(f"{token.group()} repeats a group: repeat a character or a class, such as [a-z]+")
        return ways

    def _take(self, kind: str) -> bool:
        token = self._next()
        if token is None or token.lastgroup != kind:
            return False
        self._place = token.end()
        return True

    def _next(self) -> re.Match[str] | None:
        """None at the end. Raises _NoPatternError where something stands that may not."""
        if self._place == len(self._pattern):
            return None
        if _SPECIAL_GROUP.match(self._pattern, self._place):
            special = self._pattern[self._place : self._place + 4]
            told = "a group is ( ) or (?: ), with alternatives, and looks neither ahead nor back"
            raise _NoPatternError(f"{special} at character {self._place + 1}: {told}. {_EXCLUDED}")
        token = _TOKEN.match(self._pattern, self._place)
        if token is None:
            rest = self._pattern[self._place : self._place + 10]
            raise _NoPatternError(f"{rest} is not allowed at character {self._place + 1}: write {_ALLOWED}")
        return token
