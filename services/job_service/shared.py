"""Writes of several callers in one transaction. What is done alone costs each writer a transaction: two round trips, a
commit that waits for the disk, and what the statements cost whatever they write."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial

from sqlalchemy import Engine

from penstock.control.clock import Clock
from penstock.control.logs import logger
from penstock.store.engine import transaction
from penstock.wire.desk import BatchDesk
from services.job_service.calls import Shared
from services.job_service.groups import Reached, ends_for_all, next_group
from services.job_service.writer import Asked, Outcome, write_shared

log = logger(__name__)


def shared_writes(engine: Engine, clock: Clock, path_roots: Sequence[str]) -> Shared:
    """What takes the writes of a process together."""
    return BatchDesk(partial(write_together, engine, clock, path_roots), choose=_chosen)


def write_together(
    engine: Engine, clock: Clock, path_roots: Sequence[str], asked: Sequence[Asked]
) -> list[Outcome | None]:
    """The outcomes of the writes, None for each that must be done alone: nothing of it was done. Raises what each of
    the callers is to be told; then none of the writes is known to be done."""
    reached = Reached.NOTHING
    try:
        with transaction(engine) as connection:
            reached = Reached.STATEMENTS
            outcomes = write_shared(connection, asked, clock, path_roots)
            reached = Reached.COMMIT
    except Exception as error:
        if ends_for_all(reached, error):
            raise
        log.info("writes are done one by one", count=len(asked), error=repr(error))
        return [None] * len(asked)
    return outcomes


def _chosen(asked: Sequence[Asked]) -> Sequence[int]:
    return next_group([each.write for each in asked], random.choice)
