"""`LayerWriter` on the in-memory store, with the checks of the Job Service."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

from penstock.config.merge import overlay
from penstock.config.patch import apply_merge_patch
from penstock.config.validate import check_layer, check_merged
from penstock.control.errors import Conflict, InvalidConfig, NotFound, VersionConflict
from tests.support.memory.store import JobEntry, MemoryPort, MemoryStore

SCALER = "scaler"


class MemoryLayerWriter(MemoryPort):
    """As `services.auto_scaler.ports.JobServiceWriter`. A key is remembered for ever."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self._written: dict[str, tuple[tuple[Any, ...], int]] = {}

    def patch(self, job: str, change: Mapping[str, Any], *, version: int, reason: str, key: str) -> int:
        call = (job, change, version, reason)
        with self._transaction() as store:
            if key not in self._written:
                self._written[key] = (call, self._patch(store, job, change, version))
            known, revision = self._written[key]
        if known != call:
            raise InvalidConfig("this key was used for another call", field="Idempotency-Key", rule="idempotency_key")
        return revision

    def _patch(self, store: MemoryStore, job: str, change: Mapping[str, Any], version: int) -> int:
        entry = existing(store, job)
        if entry.versions[SCALER] != version:
            raise VersionConflict("the layer has moved on", current_version=entry.versions[SCALER])
        content = apply_merge_patch(entry.layers.get(SCALER) or {}, change)
        check_layer(SCALER, content)
        layers = sorted({**entry.layers, SCALER: content}.items(), key=lambda layer: store.ranks[layer[0]])
        check_merged(reduce(overlay, (config for _, config in layers if config is not None)))
        return store.write_layer(job, SCALER, content)


def existing(store: MemoryStore, job: str) -> JobEntry:
    """A job that can be written to. Raises NotFound, Conflict."""
    if job not in store.jobs:
        raise NotFound(f"there is no job {job}", field="job", rule="known")
    if store.jobs[job].deleting:
        raise Conflict(f"the job {job} is being deleted", field="job", rule="deleting")
    return store.jobs[job]
