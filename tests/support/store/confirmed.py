"""A writer that goes on whatever happens to the store, and remembers what the Job Service confirmed."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from sqlalchemy import Engine, text

from penstock.control.errors import PenstockError, RetryableError, VersionConflict
from penstock.control.process import wait_until
from penstock.store.engine import transaction
from penstock.wire.job_client import JobClient
from tests.support.job_service.service import CONFIG

_HISTORY = text("SELECT job, version, revision, new FROM history WHERE layer = 'oncall'")


class Confirmed(NamedTuple):
    """A write that was answered with success."""

    job: str
    version: int
    revision: int
    priority: int


class Writer:
    """Overrides the priority of its jobs in turn, on a thread. `refused`: how many writes could not be made."""

    def __init__(self, client: JobClient, jobs: Sequence[str]) -> None:
        self.confirmed: list[Confirmed] = []
        self.refused = 0
        self.error: Exception | None = None
        self._client = client
        self._jobs = jobs
        self._stopping = threading.Event()
        for job in jobs:
            client.put_job(job, CONFIG, reason="for the test", verify=False)

    def goes_on(self, writes: int, timeout_s: float) -> None:
        """Waits for so many more confirmed writes."""
        wanted = len(self.confirmed) + writes
        wait_until(lambda: self.error or len(self.confirmed) >= wanted, timeout_s, f"{writes} more writes")

    def run(self) -> None:
        """Writes until it is stopped."""
        number = 0
        try:
            while not self._stopping.is_set():
                number += 1
                self._write(self._jobs[number % len(self._jobs)], 1 + number % 9)
        except (PenstockError, AssertionError) as error:  # the test tells it
            self.error = error

    def stop(self) -> None:
        """Ends after the write under way."""
        self._stopping.set()

    def _write(self, job: str, priority: int) -> None:
        try:
            before = self._client.get_layer(job, "oncall").version
            done = self._client.patch_layer(
                job, "oncall", {"priority": priority}, if_match=before, reason="for the test", verify=False
            )
        except RetryableError:
            self.refused += 1
        except VersionConflict:
            self.refused += 1  # the write before was done, though its answer was lost
        else:
            assert done.version is not None
            self.confirmed.append(Confirmed(job, done.version, done.revision, priority))


@contextmanager
def writing(client: JobClient, jobs: Sequence[str]) -> Iterator[Writer]:
    """Writes until the end of the block. Raises what broke the writer."""
    writer = Writer(client, jobs)
    thread = threading.Thread(target=writer.run, name="writer", daemon=True)
    thread.start()
    try:
        yield writer
    finally:
        writer.stop()
        thread.join(timeout=60)
    if writer.error is not None:
        raise writer.error


def lost(engine: Engine, confirmed: Sequence[Confirmed]) -> list[Confirmed]:
    """The confirmed writes that the store does not have, or has otherwise."""
    with transaction(engine) as connection:
        stored: set[tuple[Any, ...]] = {
            (row.job, row.version, row.revision, (row.new or {}).get("priority"))
            for row in connection.execute(_HISTORY)
        }
    return [write for write in confirmed if tuple(write) not in stored]
