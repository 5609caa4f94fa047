"""The count of open alerts: no scrape waits for the store, and no old count is shown."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock.control.errors import Unavailable
from penstock.control.process import wait_until
from penstock.model.alerts import AlertKind
from services.job_service import metrics
from services.job_service.metrics import OLD_SECONDS, OpenAlerts
from tests.support.control.clock import FakeClock


class SlowStore:
    """Answers a read once it may, or says that it cannot be reached."""

    def __init__(self) -> None:
        self.asked, self.may_answer = threading.Event(), threading.Event()
        self.is_away = False

    @contextmanager
    def snapshot(self, _: object) -> Iterator[None]:
        self.asked.set()
        assert self.may_answer.wait(10)
        if self.is_away:
            raise Unavailable("away")
        yield


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> SlowStore:
    slow = SlowStore()
    monkeypatch.setattr(metrics, "snapshot", slow.snapshot)
    monkeypatch.setattr(metrics, "open_by_kind", lambda _: {AlertKind.QUARANTINED: 2})
    return slow


def shown(counts: OpenAlerts) -> dict[str, float]:
    return {sample.labels["kind"]: sample.value for family in counts.collect() for sample in family.samples}


def test_a_scrape_does_not_wait_for_the_store(store: SlowStore) -> None:
    """1. The store is asked and does not answer: a scrape ends all the same. 2. It answers."""
    counts = OpenAlerts(_NO_ENGINE, FakeClock())
    counts.start()
    assert store.asked.wait(10)
    assert shown(counts) == {}
    store.may_answer.set()
    assert wait_until(lambda: shown(counts), 10, "the count")["quarantined"] == 2
    counts.stop()


def test_a_count_is_shown_until_it_is_too_old(store: SlowStore) -> None:
    store.may_answer.set()
    clock = FakeClock()
    counts = OpenAlerts(_NO_ENGINE, clock)
    counts.read_again()
    store.is_away = True
    clock.seconds += OLD_SECONDS
    counts.read_again()
    assert shown(counts)["quarantined"] == 2
    clock.seconds += 1.0
    assert shown(counts) == {}


_NO_ENGINE: Any = None
