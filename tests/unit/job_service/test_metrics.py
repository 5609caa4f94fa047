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
from penstock.model.health import Health
from penstock.wire.fleet import FleetView
from services.job_service import metrics
from services.job_service.metrics import OLD_SECONDS, Fleet, OpenAlerts
from services.job_service.store.fleet_counts import FleetCounts
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


class Counted:
    """A census that has counted."""

    def __init__(self, *, complete: bool = True) -> None:
        self.view = FleetView(
            at=FakeClock().now(), complete=complete, jobs=3, health={Health.LAGGING: 1}, states={}, worst=[]
        )

    def count(self) -> FleetView:
        return self.view


def fleet(monkeypatch: pytest.MonkeyPatch, store: SlowStore, census: Any) -> dict[str, float]:
    """The samples of a count, by name and label. The store takes no writes: that keeps no metric back."""
    store.may_answer.set()
    monkeypatch.setattr(metrics, "transaction", _refused)
    counts = FleetCounts(10, 7, 1, 0.0, 12.5, 60.0, 1)
    monkeypatch.setattr(metrics, "count_fleet", lambda _: counts)
    read = Fleet(_NO_ENGINE, FakeClock(), census)
    read.read_again()
    samples = [sample for family in read.collect() for sample in family.samples]
    return {" ".join((sample.name, *sample.labels.values())): sample.value for sample in samples}


def test_tasks_that_are_not_heard_are_unknown(store: SlowStore, monkeypatch: pytest.MonkeyPatch) -> None:
    found = fleet(monkeypatch, store, Counted())
    assert [found[f"penstock_fleet_tasks {state}"] for state in ("running", "not_running", "unknown")] == [7, 1, 2]
    assert (found["penstock_fleet_jobs lagging"], found["penstock_fleet_jobs healthy"]) == (1, 0)
    assert found["penstock_convergence_age_seconds 0.99"] == 12.5


def test_a_count_of_jobs_that_is_not_complete_is_not_shown(store: SlowStore, monkeypatch: pytest.MonkeyPatch) -> None:
    found = fleet(monkeypatch, store, Counted(complete=False))
    assert "penstock_fleet_jobs lagging" not in found
    assert found["penstock_fleet_jobs_behind"] == 1


def _refused(_: object) -> None:
    raise Unavailable("the store takes no writes")


_NO_ENGINE: Any = None
