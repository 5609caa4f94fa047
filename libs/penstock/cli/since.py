"""Who has written a layer since a command read it, and what: for a write that was refused because of that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import takewhile

from penstock.cli.output import changes, moment
from penstock.control.errors import VersionConflict
from penstock.control.texts import first_few
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import HistoryEntry


@contextmanager
def telling_writes(connection: JobClient, job: str, layer: str, version: int) -> Iterator[None]:
    """A VersionConflict of a write in the body tells the writes since `version`, which the command has read."""
    try:
        yield
    except VersionConflict as error:
        later = list(takewhile(lambda entry: (entry.version or 0) > version, connection.layer_history(job, layer)))
        if not later:
            raise
        told = f"{writes_since(later, layer, version)}. Nothing of yours was written: give the command again"
        raise VersionConflict(told, current_version=error.current_version, field="layer") from error


def writes_since(later: Iterable[HistoryEntry], layer: str, version: int) -> str:
    """The writes, newest first, oldest first in words. Pure but for the ages of the writes."""
    told = [_write(entry) for entry in later][::-1]
    return f"the layer {layer} has changed since version {version}: {first_few(told, '; ')}"


def _write(entry: HistoryEntry) -> str:
    what = ", ".join(changes(entry.old, entry.new)) or "the same content"
    why = f" ({entry.reason})" if entry.reason else ""
    return f"{entry.author} wrote version {entry.version} at {moment(entry.at)}{why}: {what}"
