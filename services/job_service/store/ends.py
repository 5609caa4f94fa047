"""When a layer ends that goes back to an earlier version: as that version did, unless the write says otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection

from penstock.model.jobs import Action
from services.job_service.layer_expiry import again
from services.job_service.store.history import terms_at_versions
from services.job_service.writes import Write


def with_ends(connection: Connection, writes: Sequence[Write], now: datetime) -> list[Write]:
    """The writes, each revert without an expiry with that of the version that it goes back to. The history only
    grows, so this may be read before the transaction of the writes."""
    asked = {
        position: (write.job, write.layer, write.version)
        for position, write in enumerate(writes)
        if write.action is Action.REVERT and write.version and write.expiry is None
    }
    terms = terms_at_versions(connection, asked)
    return [
        replace(write, expiry=again(*terms[position], now)) if position in terms else write
        for position, write in enumerate(writes)
    ]
