"""`RollbackStore`, and the Job Service as the rollback keeper uses it, on the in-memory store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import islice
from typing import Any

from penstock.config.merge import overlay
from penstock.config.validate import check_layer, check_merged
from penstock.control.errors import Conflict, NotFound, UserError, VersionConflict
from penstock.store.running import STATE_SYNCER
from penstock.tasks.rollout import LayerContent, Rejected
from penstock.wire.jobs import BatchAction, BatchResult, BatchWrite, Problem, Written
from services.state_syncer.rollback.store import Mark, Rejection, Rejections, parse_rejected
from tests.support.memory.store import JobEntry, MemoryPort, MemoryStore


class MemoryRollbackStore(MemoryPort):
    """As `services.state_syncer.rollback.store.RollbackStore`."""

    def read(self, done: Mapping[str, Mark], limit: int) -> Rejections:
        with self._transaction() as store:
            names = sorted(name for name in store.rejected if not store.jobs[name].deleting)
            fresh = (_rejection(store, name) for name in names if done.get(name) != _mark(store, name))
            return Rejections(names, list(islice((each for each in fresh if each is not None), limit)))

    def forget(self, jobs: Mapping[str, Rejected], leader_epoch: int) -> None:
        with self._transaction() as store:
            store.check_epoch(STATE_SYNCER, leader_epoch)
            for job, seen in jobs.items():
                held = store.rejected.get(job)
                if held is not None and Rejected.model_validate(held) == seen:
                    del store.rejected[job]
                    store.clear_rejected(job)

    def alert(self, refused: Mapping[str, str], done: Mapping[str, Rejected], leader_epoch: int) -> None:
        with self._transaction() as store:
            store.check_epoch(STATE_SYNCER, leader_epoch)
            store.rollback_refused = (store.rollback_refused | refused.keys()) - done.keys()
            store.rolled_back |= done.keys()


def _mark(store: MemoryStore, name: str) -> Mark:
    return Mark(store.jobs[name].revision, store.rejected[name])


def _rejection(store: MemoryStore, name: str) -> Rejection | None:
    entry, rejected = store.jobs[name], parse_rejected(name, store.rejected[name])
    if rejected is None:
        return None
    layers = [LayerContent(layer, config, entry.versions[layer]) for layer, config in entry.layers.items()]
    layers.sort(key=lambda each: store.ranks[each.layer])
    return Rejection(name, _mark(store, name), rejected, layers)


class MemoryBatches(MemoryPort):
    """As `penstock.wire.job_client.JobClient.batch`, for writes that put and drop layers."""

    def batch(self, writes: Sequence[BatchWrite]) -> list[BatchResult]:
        with self._transaction() as store:
            return [_result(store, write) for write in writes]


def _result(store: MemoryStore, write: BatchWrite) -> BatchResult:
    try:
        return BatchResult(status=200, written=_write(store, write))
    except UserError as error:
        problem = Problem(
            type="about:blank",
            title=type(error).__name__,
            status=error.status,
            detail=error.detail,
            field=error.field,
            rule=error.rule,
        )
        return BatchResult(status=error.status, problem=problem)


def _write(store: MemoryStore, write: BatchWrite) -> Written:
    entry, layer = _existing(store, write.job), str(write.layer)
    if entry.versions[layer] != write.if_match:
        raise VersionConflict("the layer has moved on", current_version=entry.versions[layer])
    content: dict[str, Any] | None = None
    if write.action is BatchAction.PUT:
        content = dict(write.config)
        check_layer(layer, content)
    elif entry.layers.get(layer) is None:
        raise NotFound(f"the job {write.job} has no layer {layer}", field="layer", rule="known")
    merged = sorted({**entry.layers, layer: content}.items(), key=lambda each: store.ranks[each[0]])
    check_merged(reduce(overlay, (config for _, config in merged if config is not None)))
    revision = store.write_layer(write.job, layer, content)
    return Written(
        job=write.job, action=write.action.value, revision=revision, layer=layer, version=entry.versions[layer]
    )


def _existing(store: MemoryStore, job: str) -> JobEntry:
    """A job that can be written to. Raises NotFound, Conflict."""
    if job not in store.jobs:
        raise NotFound(f"there is no job {job}", field="job", rule="known")
    if store.jobs[job].deleting:
        raise Conflict(f"the job {job} is being deleted", field="job", rule="deleting")
    return store.jobs[job]
