"""A write of a layer that somebody else has written meanwhile: who, what and what to do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from penstock.cli.since import telling_writes
from penstock.control.errors import VersionConflict
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import HistoryEntry

NOW = datetime.now(UTC)
FIELDS = {"id": 1, "job": "etl", "layer": "oncall", "action": "patch", "expires_at": None}


def entry(version: int, author: str, old: Any, new: Any, reason: str = "") -> HistoryEntry:
    at = NOW - timedelta(days=version)
    changed = {"version": version, "revision": version, "author": author, "old": old, "new": new, "reason": reason}
    return HistoryEntry.model_validate(FIELDS | changed | {"at": at})


ENTRIES = [
    entry(4, "bob", {"task_count": 2}, {"task_count": 4}, "catching up"),
    entry(3, "ann", None, {"task_count": 2}),
    entry(2, "ann", None, {}),
]


class Connection:
    """A Job Service in which the layer is at version 4."""

    def layer_history(self, *_: str) -> Any:
        return iter(ENTRIES)


def refused(read: int) -> VersionConflict:
    connection = cast(JobClient, Connection())
    with pytest.raises(VersionConflict) as told, telling_writes(connection, "etl", "oncall", read):
        raise VersionConflict("the layer is at version 4", current_version=4)
    assert told.value.current_version == 4
    return told.value


def test_each_write_since_is_told_with_its_author_reason_and_changes() -> None:
    first, second = refused(2).detail.split("; ")
    assert first.startswith("the layer oncall has changed since version 2: ann wrote version 3 at ")
    assert first.endswith("3d ago: task_count: unset -> 2")
    assert second.startswith("bob wrote version 4 at ")
    assert second.endswith(
        "4d ago (catching up): task_count: 2 -> 4. Nothing of yours was written: give the command again"
    )


def test_a_version_that_nobody_has_written_yet_is_refused_in_the_services_words() -> None:
    assert refused(7).detail == "the layer is at version 4"
