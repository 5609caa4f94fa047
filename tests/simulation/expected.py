"""Every configuration that was ever expected, by the layers alone: noted whenever a layer has changed."""

from __future__ import annotations

from collections import defaultdict
from functools import reduce
from typing import Any

import orjson

from penstock.config.merge import overlay
from penstock.config.model import JobConfig
from penstock.config.validate import check_merged
from tests.support.memory.store import MemoryStore


class Expected:
    """`newest`: by job what is expected now; a job that is gone keeps what was expected last."""

    def __init__(self, memory: MemoryStore) -> None:
        self.newest: dict[str, Any] = {}
        self._memory = memory
        self._ever: defaultdict[str, set[bytes]] = defaultdict(set)
        self._stopped: set[str] = set()
        self._revision = 0
        self._revisions: dict[str, int] = {}
        self._merged: dict[bytes, Any] = {}
        self._known: dict[int, JobConfig] = {}

    def look(self) -> None:
        """Merges the layers of jobs that were written to."""
        if self._memory.counters["revision"] == self._revision:
            return
        self._revision = self._memory.counters["revision"]
        for job, entry in self._memory.jobs.items():
            if self._revisions.get(job) != entry.revision:
                self._revisions[job] = entry.revision
                self._note(job)

    def was(self, job: str, config: Any) -> bool:
        """Whether a configuration, as JSON, was expected of the job at some time.

        A stop and a start need not wait for the rest of a write, so a job that was ever to stop may be stopped or run
        with what was expected otherwise.
        """
        states = ("running", "stopped") if job in self._stopped else (config["desired_state"],)
        return any(self._was(job, {**config, "desired_state": state}) for state in states)

    def _was(self, job: str, config: Any) -> bool:
        return orjson.dumps(config, option=orjson.OPT_SORT_KEYS) in self._ever[job]

    def was_of_task(self, job: str, config: JobConfig) -> bool:
        """The same of what a task runs."""
        if id(config) not in self._known:
            if not self.was(job, config.model_dump(mode="json")):
                return False
            self._known[id(config)] = config
        return True

    def _note(self, job: str) -> None:
        layers = self._memory.configs(job)
        key = orjson.dumps(layers)
        if key not in self._merged:
            self._merged[key] = check_merged(reduce(overlay, layers, {})).model_dump(mode="json")
        self.newest[job] = self._merged[key]
        self._ever[job].add(orjson.dumps(self.newest[job], option=orjson.OPT_SORT_KEYS))
        if self.newest[job]["desired_state"] == "stopped":
            self._stopped.add(job)
