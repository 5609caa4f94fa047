"""Processes found by their command lines, for which any process may end between two looks; how one ended."""

from __future__ import annotations

from pathlib import Path

import psutil

_MOST_LINES, _MOST_BYTES = 20, 8192


def how_ended(code: int) -> str:
    """The exit code of a process in words; a negative one is minus the signal that ended it."""
    return f"signal {-code}" if code < 0 else f"exit {code}"


def last_lines(log_path: Path) -> str:
    """The end of a log: 20 lines at most; says so where there are none."""
    try:
        with log_path.open("rb") as log:
            size = log.seek(0, 2)
            log.seek(max(0, size - _MOST_BYTES))
            text = log.read().decode(errors="replace")
    except OSError as error:
        return f"(it cannot be read: {error.strerror})"
    return "\n".join(text.splitlines()[-_MOST_LINES:]) or "(it is empty)"


def find_process(pid: int, words: list[str]) -> psutil.Process | None:
    """The process `pid` if it lives and its command line holds all of `words`; a zombie has none."""
    try:
        process = psutil.Process(pid)
        command = process.cmdline()
    except psutil.Error:
        return None
    return process if all(word in command for word in words) else None


def children_with(pid: int, words: list[str]) -> list[psutil.Process]:
    """The living children of `pid` whose command lines hold all of `words`; none when `pid` has ended."""
    parent = find_process(pid, [])
    children = [] if parent is None else parent.children()
    found = [find_process(child.pid, words) for child in children]
    return [process for process in found if process is not None]


def children_titled(pid: int, title: str) -> list[psutil.Process]:
    """The living children of `pid` whose command lines begin with `title`; none when `pid` has ended."""
    parent = find_process(pid, [])
    found = []
    for child in [] if parent is None else parent.children():
        try:
            words = child.cmdline()
        except psutil.Error:
            continue
        if " ".join(words).startswith(title):
            found.append(child)
    return found
