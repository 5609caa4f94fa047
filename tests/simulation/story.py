"""What happened, for people: virtual time, process, event. The same seed gives the same lines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


class Story:
    """Lines in order of time."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.bugs: list[str] = []
        self.now: Callable[[], float] = lambda: 0.0
        self.who: Callable[[], str] = lambda: "-"

    def tell(self, who: str, event: str, **values: Any) -> None:
        """One line."""
        shown = " ".join(f"{name}={_shown(value)}" for name, value in values.items())
        self.lines.append(f"{self.now():10.3f}  {who:<16} {event}{' ' if shown else ''}{shown}")

    def bug(self, who: str, event: str, error: BaseException | None) -> None:
        """Something that must never be: code broke."""
        self.tell(who, f"BUG: {event}", error=repr(error))
        self.bugs.append(f"{event}: {error!r}")

    def text(self) -> str:
        """All of it."""
        return "\n".join(self.lines)


class StoryLogger:
    """Stands for the loggers of `penstock.control.logs`: what the real code logs is part of the story."""

    def __init__(self, story: Story) -> None:
        self._story = story

    def info(self, event: str, **values: Any) -> None:
        self._story.tell(self._story.who(), event, **values)

    debug = warning = info

    def error(self, event: str, **values: Any) -> None:
        self._story.tell(self._story.who(), f"error: {event}", **values)

    def log(self, _: int, event: str, **values: Any) -> None:
        self.info(event, **values)

    def exception(self, event: str, **values: Any) -> None:
        """Logged where code broke, or where an error that no loop knows came up."""
        error = current_error()
        self._story.tell(self._story.who(), event, **values)
        self._story.bug(self._story.who(), event, error)


def current_error() -> BaseException | None:
    """The error that is being handled."""
    return sys.exception()


def _shown(value: Any) -> str:
    text = ",".join(sorted(map(str, value))) if isinstance(value, set | frozenset) else str(value)
    return text if len(text) <= 300 else f"{text[:300]}..."
