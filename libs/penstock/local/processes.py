"""Processes found by their command lines, for which any process may end between two looks."""

from __future__ import annotations

import psutil


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
