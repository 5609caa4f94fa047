"""Has the layer `rollback` written and dropped, beside the rounds of jobs and under the same lease.

The Job Service alone writes what is expected, so it is asked. While it is away rollouts stay halted as recorded, and
each round asks again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.config.declare import ROLLBACK_LAYER
from penstock.control.errors import PenstockError
from penstock.control.logs import logger
from penstock.tasks.rollout import Rejected
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import LARGEST_BATCH, BatchAction, BatchWrite
from services.state_syncer.rollback.decide import Forget, Keep, Write, decide_rollback
from services.state_syncer.rollback.store import RollbackStore

log = logger(__name__)
_CONFLICT = 409


class RollbackReconciler:
    """`_done`: jobs of which nothing is to be done until they are written to again."""

    def __init__(self, store: RollbackStore, writer: JobClient) -> None:
        self._store = store
        self._writer = writer
        self._done: dict[str, int] = {}

    def round(self, leader_epoch: int) -> bool:
        """Brings the layer of every rejected package to what it should be; whether to look again soon. Raises Fenced,
        Unavailable."""
        jobs, found = self._store.read(self._done, LARGEST_BATCH)
        self._done = {job: revision for job, revision in self._done.items() if job in jobs}
        revisions = {each.job: each.revision for each in found}
        writes: list[BatchWrite] = []
        forget: dict[str, Rejected] = {}
        kept: dict[str, int] = {}
        for job, revision, rejected, layers, _ in found:
            match decide_rollback(rejected, layers):
                case Write(config, version, reason):
                    writes.append(_batch_write(job, config, version, reason))
                case Forget():
                    forget[job] = rejected
                case Keep():
                    kept[job] = revision
        if forget:
            self._store.forget(forget, leader_epoch)
        refused = self._ask(writes)
        accepted = [each.job for each in found if each.is_refused and each.job in kept]
        if refused or accepted:
            self._store.alert(refused, accepted, leader_epoch)
        self._done |= kept | {job: revisions[job] for job in refused}
        return bool(writes) or len(found) == LARGEST_BATCH

    def _ask(self, writes: Sequence[BatchWrite]) -> dict[str, str]:
        """The writes that are refused, and why: until the job is written to they would be refused again."""
        if not writes:
            return {}
        try:
            results = self._writer.batch(writes)
        except PenstockError as error:
            log.warning("the job service does not take a rollback", jobs=len(writes), error=error.detail)
            return {}
        refused = {}
        for write, result in zip(writes, results, strict=True):
            if result.problem is None:
                log.info("rollback layer written", job=write.job, action=write.action.value, reason=write.reason)
            elif result.status != _CONFLICT:
                refused[write.job] = result.problem.detail or result.problem.title
                log.warning("rollback refused", job=write.job, error=refused[write.job])
        return refused


def _batch_write(job: str, config: Mapping[str, Any] | None, version: int, reason: str) -> BatchWrite:
    action = BatchAction.DROP if config is None else BatchAction.PUT
    content = dict(config or {})
    return BatchWrite(action=action, job=job, layer=ROLLBACK_LAYER, config=content, if_match=version, reason=reason)
