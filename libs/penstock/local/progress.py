"""Progress of the long steps of the set-up: what a step does, about how long it takes, and how far it is.

On a terminal one line is rewritten each second. Elsewhere (CI) a plain line is printed every ten seconds; so it
is everywhere for what a stack waits for. Only the standard library is imported, since the first step runs before any
package is installed.

`python -m penstock.local.progress TITLE SECONDS COMMAND...` shows the progress of a command.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, TextIO

_TERMINAL_PERIOD_SECONDS = 1.0
_PLAIN_PERIOD_SECONDS = 10.0
_CLEAR_LINE = "\r\x1b[K"


def _nothing() -> str:
    return ""


class Step:
    """A long step; use as a context manager. `now` or `count` say how far it is."""

    def __init__(self, title: str, *, about_seconds: int, stream: TextIO | None = None) -> None:
        self._title = title
        self._about_seconds = about_seconds
        self._status: Callable[[], str] = _nothing
        self._stream = stream or sys.stderr
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._show_until_the_end, name="progress", daemon=True)
        self._began = time.monotonic()

    def now(self, text: str) -> None:
        """Sets the text of how far the step is."""
        self._status = lambda: text

    def count(self, status: Callable[[], str]) -> None:
        """Sets a function that counts how far the step is; it is called for each line."""
        self._status = status

    def line(self) -> str:
        """How far the step is: `12/58 jars, 8 s`."""
        seconds = f"{time.monotonic() - self._began:.0f} s"
        return ", ".join(part for part in (self._status(), seconds) if part)

    def __enter__(self) -> Self:
        print(f"{self._title} (about {self._about_seconds} s)", file=self._stream, flush=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        clear = _CLEAR_LINE if self._stream.isatty() else ""
        print(f"{clear}  {'done' if kind is None else 'failed'}: {self.line()}", file=self._stream, flush=True)

    def _show_until_the_end(self) -> None:
        is_terminal = self._stream.isatty()
        period = _TERMINAL_PERIOD_SECONDS if is_terminal else _PLAIN_PERIOD_SECONDS
        while not self._ended.wait(period):
            text = f"{_CLEAR_LINE}  {self.line()}" if is_terminal else f"  {self.line()}\n"
            self._stream.write(text)
            self._stream.flush()


class Awaited:
    """Tells what is awaited and for how long already, each `period_seconds`; use as a context manager. What does not
    take that long is not told. `on_event(text)` gets the lines, on a thread of this object."""

    def __init__(
        self, on_event: Callable[[str], None], what: str, period_seconds: float = _PLAIN_PERIOD_SECONDS
    ) -> None:
        self._on_event = on_event
        self._period_seconds = period_seconds
        self._what = what
        self._since = time.monotonic()
        self._has_ended = False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._tell_until_the_end, name="awaited", daemon=True)

    def now(self, what: str) -> None:
        """Sets what is awaited; its time begins."""
        with self._news:
            self._what, self._since = what, time.monotonic()
            self._news.notify()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        with self._news:
            self._has_ended = True
            self._news.notify()
        self._thread.join()

    def _tell_until_the_end(self) -> None:
        with self._news:
            while not self._has_ended:
                if not self._news.wait(self._period_seconds):
                    self._on_event(f"waiting for {self._what}: {time.monotonic() - self._since:.0f} s so far")


def run(title: str, about_seconds: int, command: Sequence[str]) -> int:
    """Runs a command and shows its progress. Its output is printed only when it fails; returns its exit code."""
    with Step(title, about_seconds=about_seconds):
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
    if ended.returncode:
        sys.stderr.write(ended.stdout)
    return ended.returncode


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
