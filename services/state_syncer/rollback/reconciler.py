"""Has the layer `rollback` written and dropped, beside the rounds of jobs and under the same lease.

The Job Service alone writes what is expected, so it is asked. Only what it has accepted counts as rolled back. Until
then rollouts stay halted as recorded. What it refuses is told by an alert, and asked again after a pause.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.config.declare import ROLLBACK_LAYER
from penstock.control.errors import PenstockError
from penstock.control.logs import logger
from penstock.tasks.rollout import Rejected
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import LARGEST_BATCH, BatchAction, BatchResult, BatchWrite
from services.state_syncer.rollback.decide import Forget, Keep, Refusal, TakenBack, Write, decide_rollback
from services.state_syncer.rollback.store import Mark, Rejection, RollbackStore

log = logger(__name__)


class _Paused(NamedTuple):
    """A refused write, which is tried again at `due`, of the monotonic clock, or when there is anything new."""

    refusal: Refusal
    mark: Mark
    due: float


class RollbackReconciler:
    """`_done`: jobs of which nothing is to be done until there is anything new. `_paused`: the same until some time has
    gone by."""

    def __init__(self, store: RollbackStore, writer: JobClient, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._writer = writer
        self._monotonic = monotonic
        self._done: dict[str, Mark] = {}
        self._paused: dict[str, _Paused] = {}

    def round(self, leader_epoch: int) -> bool:
        """Brings the layer of every rejected package to what it should be; whether to look again soon. Raises Fenced,
        Unavailable."""
        jobs, found = self._store.read(self._left_alone(), LARGEST_BATCH)
        self._done = {job: mark for job, mark in self._done.items() if job in jobs}
        self._paused = {job: paused for job, paused in self._paused.items() if job in jobs}
        writes: dict[str, BatchWrite] = {}
        forget: dict[str, Rejected] = {}
        taken_back: dict[str, Rejected] = {}
        for each in found:
            match decide_rollback(each.rejected, each.layers):
                case Write(config, version, reason):
                    writes[each.job] = _batch_write(each.job, config, version, reason)
                case Forget():
                    forget[each.job] = each.rejected
                case TakenBack():
                    taken_back[each.job] = each.rejected
                    self._done[each.job] = each.mark
                case Keep():
                    self._done[each.job] = each.mark
        if forget:
            self._store.forget(forget, leader_epoch)
        refused = self._ask([each for each in found if each.job in writes], writes)
        told = {job: refusal.why for job, refusal in refused.items() if refusal.needs_people}
        if told or taken_back:
            self._store.alert(told, taken_back, leader_epoch)
        return bool(writes) or len(found) == LARGEST_BATCH

    def _left_alone(self) -> dict[str, Mark]:
        now = self._monotonic()
        return self._done | {job: paused.mark for job, paused in self._paused.items() if now < paused.due}

    def _ask(self, found: Sequence[Rejection], writes: Mapping[str, BatchWrite]) -> dict[str, Refusal]:
        """The writes that were not done, and why: each is tried again after a pause, or once its job is written to."""
        if not found:
            return {}
        refused = {}
        for each, (status, detail) in zip(found, self._answers(list(writes.values())), strict=True):
            before = self._paused.pop(each.job, None)
            if detail is None:
                log.info("rollback layer written", job=each.job, action=writes[each.job].action.value)
                continue
            times = before.refusal.times + 1 if before is not None and before.mark == each.mark else 1
            refused[each.job] = refusal = Refusal(status, detail, times)
            self._paused[each.job] = _Paused(refusal, each.mark, self._monotonic() + refusal.pause_seconds)
            log.warning("rollback refused", job=each.job, error=detail, status=status, times=times)
        return refused

    def _answers(self, writes: Sequence[BatchWrite]) -> list[tuple[int, str | None]]:
        """For each write the status, and what is wrong; None when it was done."""
        try:
            return [(result.status, _problem(result)) for result in self._writer.batch(writes)]
        except PenstockError as error:
            return [(error.status, error.detail)] * len(writes)


def _problem(result: BatchResult) -> str | None:
    return None if result.problem is None else result.problem.detail or result.problem.title


def _batch_write(job: str, config: Mapping[str, Any] | None, version: int, reason: str) -> BatchWrite:
    action = BatchAction.DROP if config is None else BatchAction.PUT
    content = dict(config or {})
    return BatchWrite(action=action, job=job, layer=ROLLBACK_LAYER, config=content, if_match=version, reason=reason)
