"""Single keys of the terminal, without Enter."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Wait = Callable[[float], str]
"""Waits for a key for at most so many seconds: the key, or an empty text."""


@contextmanager
def keys() -> Iterator[Wait]:
    """How to wait for a key. Without a terminal it only waits. The terminal is as before at the end."""
    if not sys.stdin.isatty():
        yield _sleep
        return
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    tty.setcbreak(number)
    try:
        yield lambda seconds: _key(number, seconds)
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def _sleep(seconds: float) -> str:
    time.sleep(seconds)
    return ""


def _key(number: int, seconds: float) -> str:
    ready, _, _ = select.select([number], [], [], seconds)
    return os.read(number, 1).decode("latin-1") if ready else ""
