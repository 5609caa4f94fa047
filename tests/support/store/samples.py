"""Samples taken now, also a second time in a minute."""

from __future__ import annotations

from sqlalchemy import Engine, text

from penstock.store.engine import transaction
from services.task_service.store.samples import SampleStore

_AGAIN = (
    "UPDATE sampled SET minute = '-infinity'",
    "DELETE FROM task_metrics WHERE minute >= date_trunc('minute', clock_timestamp())",
)


def take_samples(engine: Engine) -> int | None:
    """Takes the samples of this minute, in place of those that were taken before."""
    with transaction(engine) as connection:
        for statement in _AGAIN:
            connection.execute(text(statement))
    return SampleStore(engine).take()
