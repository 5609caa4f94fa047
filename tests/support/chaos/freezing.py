"""Processes that stand still (SIGSTOP) and go on (SIGCONT)."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import psutil


def freeze(pid: int, *, family: bool) -> list[psutil.Process]:
    """Stops a process, with `family` all below it, too; those that were stopped. None if it has ended."""
    with suppress(psutil.NoSuchProcess):
        head = psutil.Process(pid)
        head.send_signal(signal.SIGSTOP)  # first: it starts no more children then
        found = [head, *(head.children(recursive=True) if family else ())]
        for process in found[1:]:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGSTOP)
        return found
    return []


def thaw(processes: Sequence[psutil.Process]) -> None:
    """Lets them go on; some may have been killed by now."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGCONT)


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """A process and all below it, stopped for as long as this is open."""
    stopped = freeze(pid, family=True)
    assert stopped
    try:
        yield
    finally:
        thaw(stopped)
