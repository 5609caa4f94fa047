"""Which fields a synced or waiting change is about, worked out when somebody looks.

The State Syncer commits simple changes of many jobs at once and does not compare their fields. It notes the revision
that ran before; the history has the layers as they were then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from penstock.config.classify import classify
from penstock.config.merge import LayerConfig, merge
from services.job_service.store import history
from services.job_service.store.layers import all_layers
from services.job_service.store.overview import RunningRow, SyncRow


def changed_fields(connection: Connection, job: str, sync: SyncRow, running: RunningRow | None) -> list[str] | None:
    """The dotted paths of the fields, in order; None when what they changed from is not known any more."""
    if sync.changed_fields is not None:
        return list(sync.changed_fields)
    if running is None:
        return None
    before = running.config if sync.changed_from is None else _config_at(connection, job, sync.changed_from)
    after = running.config if sync.revision == running.revision else _config_at(connection, job, sync.revision)
    return None if before is None or after is None else sorted(each.field for each in classify(before, after).fields)


def _config_at(connection: Connection, job: str, revision: int) -> Mapping[str, Any] | None:
    """What the layers of a job merged to at a revision, without defaults."""
    found = []
    for name, row in all_layers(connection).items():
        written = history.as_of(connection, job, name, revision)
        if written is not None and written.new is not None:
            found.append(LayerConfig(name, row.rank, 0, written.new))
    return merge(found) if found else None
