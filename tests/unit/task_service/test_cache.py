"""Templates are served whatever becomes of the alerts about them, and alerts that failed are told again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.control.clock import SystemClock
from penstock.control.errors import TransactionEnded
from penstock.control.process import wait_until
from services.task_service import alerting
from services.task_service import cache as task_service_cache
from services.task_service.cache import TemplateCache
from services.task_service.store.rows import Changes, StoredTemplate
from services.task_service.waiters import Waiters

BROKEN = StoredTemplate("a", "[]", 1, 1, 0, False, 1, None, False, None)


class FailingStore:
    """A store with a row that does not validate, which takes no alert while `error` is set. `tried`: how often each
    alert was tried."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.tried = {"broken": 0, "waiting": 0}
        self.alerts: dict[str, str] = {}

    def read(self, after: int = -1) -> Changes:
        return Changes(1, 4, (BROKEN,) if after < 1 else (), {}, "of this store")

    def alert(self, broken: Mapping[str, str], mended: Collection[str]) -> None:
        self._try("broken")
        self.alerts.update(broken)

    def alert_waiting_tasks(self, after_seconds: float) -> None:
        self._try("waiting")

    def _try(self, what: str) -> None:
        self.tried[what] += 1
        if self.error is not None:
            raise self.error


@contextmanager
def reading(store: Any) -> Iterator[TemplateCache]:
    cache = TemplateCache(store, SystemClock(), Waiters(), expiry_seconds=60.0, held_back_alert_seconds=60.0)
    cache.start()
    try:
        yield cache
    finally:
        cache.stop()


@pytest.mark.parametrize("error", [TransactionEnded("a lock is kept"), ValueError("a bug")])
def test_templates_are_served_while_no_alert_is_stored_which_is_tried_again(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. A row does not validate, and no alert is stored: templates are served. 2. Alerts are tried again, of both
    kinds. 3. Alerts are stored: then nothing is told twice."""
    for module in (alerting, task_service_cache):
        monkeypatch.setattr(module, "AGAIN_SECONDS", 0.01)
    store = FailingStore(error)
    with reading(store) as cache:
        wait_until(lambda: cache.templates is not None, 10, "the templates")
        wait_until(lambda: min(store.tried.values()) > 2, 10, "alerts to be tried again")
        assert not store.alerts
        store.error = None
        wait_until(lambda: "a" in store.alerts, 10, "the alert")
        reads, tried = cache.reads, dict(store.tried)
        cache.wake()
        wait_until(lambda: cache.reads > reads, 10, "another read")
    assert store.tried["broken"] == tried["broken"]
