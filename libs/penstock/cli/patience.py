"""Waiting for the cluster. Whoever waits for long is told which part of Penstock is not well."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from penstock.cli.bar import Share, shown, unknown
from penstock.cli.output import say
from penstock.control.errors import PenstockError
from penstock.control.process import wait_until
from penstock.wire.job_client import JobClient

Found = TypeVar("Found")
PATIENCE_SECONDS = 15.0
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
) -> Found:
    """As `wait_until`, with a bar on a terminal. Each time the patience is over, it says what is not well with the
    cell, each part once."""
    said: set[str] = set()
    look_at = time.monotonic() + patience_seconds

    def patiently() -> Found:
        """The condition, and a look at the cell now and then."""
        nonlocal look_at
        found = condition()
        if not found and time.monotonic() >= look_at:
            look_at = time.monotonic() + patience_seconds
            _say_troubles(connection, said)
        return found

    with shown(f"waiting for {what.partition(':')[0]}", share):
        return wait_until(patiently, seconds, what, poll_s=poll_s)


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
