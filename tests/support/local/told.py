"""What those that watch processes tell."""

from __future__ import annotations

import threading


class Told:
    """The lines that were told, in order."""

    def __init__(self, wait_s: float) -> None:
        self.lines: list[str] = []
        self._wait_s = wait_s
        self._news = threading.Condition()

    def __call__(self, text: str) -> None:
        with self._news:
            self.lines.append(text)
            self._news.notify_all()

    def wait_for(self, text: str, times: int = 1) -> None:
        """Waits until so many lines hold the text."""
        with self._news:
            heard = self._news.wait_for(lambda: sum(text in line for line in self.lines) >= times, self._wait_s)
        assert heard, self.lines
