"""Waiting for the cluster. Whoever waits for long is told that it goes on, for how long already, and which part of
Penstock is not well."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from penstock.cli.bar import Share, shown, unknown
from penstock.cli.output import say, span
from penstock.control.errors import PenstockError
from penstock.control.process import wait_until
from penstock.wire.job_client import JobClient

Found = TypeVar("Found")
PATIENCE_SECONDS = 15.0
LONG_SECONDS = 30.0
_ALERTS = "alerts"


def await_cluster(
    connection: JobClient,
    condition: Callable[[], Found],
    seconds: float,
    what: str,
    *,
    poll_s: float,
    patience_seconds: float = PATIENCE_SECONDS,
    share: Share = unknown,
    step: Callable[[], str] | None = None,
    long_seconds: float = LONG_SECONDS,
) -> Found:
    """As `wait_until`, with a bar on a terminal. Each time the patience is over, it says what is not well with the
    cell, each part once. A step that takes long is told again. `step`: the present one; default: the whole wait."""
    said: set[str] = set()
    waits_for = what.partition(":")[0]
    now = time.monotonic()
    look_at, long_step = now + patience_seconds, LongStep(now, long_seconds)

    def patiently() -> Found:
        """The condition, and a look at the cell now and then."""
        nonlocal look_at
        found, now = condition(), time.monotonic()
        line = None if found else long_step.line(step() if step else f"waiting for {waits_for}", now)
        if line is not None:
            say(line)
        if not found and now >= look_at:
            look_at = now + patience_seconds
            _say_troubles(connection, said)
        return found

    with shown(f"waiting for {waits_for}", share):
        return wait_until(patiently, seconds, what, poll_s=poll_s)


class LongStep:
    """When a step is told again: after `first` seconds, then each time after twice as long. Pure."""

    def __init__(self, now: float, first: float) -> None:
        self._first = first
        self._begin("", now)

    def _begin(self, step: str, now: float) -> None:
        self._step, self._since, self._due = step, now, now + self._first

    def line(self, step: str, now: float) -> str | None:
        """What to say at this moment (monotonic, in seconds) of the present step; None: nothing."""
        if step != self._step:
            self._begin(step, now if self._step else self._since)
        if now < self._due:
            return None
        took = now - self._since
        self._due = self._since + 2 * took
        return f"after {span(took)}: still {step}"


def _say_troubles(connection: JobClient, said: set[str]) -> None:
    try:
        parts = connection.status().parts
    except PenstockError:  # the wait goes on: its own calls tell what is wrong
        return
    for line in parts:
        # Alerts may be about other jobs: they do not explain why this one is late.
        if not line.ok and line.part not in said and line.part != _ALERTS:
            said.add(line.part)
            say(f"{line.part}: {line.summary}. See `penstock status`")
