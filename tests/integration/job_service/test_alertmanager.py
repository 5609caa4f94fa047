"""A real Alertmanager takes the messages of the shape `alertmanager`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from penstock.control.process import wait_until
from penstock.model.alerts import AlertKind
from penstock.store.alerts import clear_alerts, raise_alert
from penstock.store.engine import transaction
from services.job_service.notify.loop import LOOP, Notifications
from services.job_service.notify.messages import Links
from services.job_service.notify.sender import Sender
from services.job_service.notify.targets import Shape, Target
from tests.support.control.clock import FakeClock
from tests.support.job_service.service import RunningJobService
from tests.support.stack.alertmanager import alertmanager
from tests.support.state_syncer.cell import elect

KIND = AlertKind.TASK_CRASHING


@pytest.mark.long
def test_an_alertmanager_has_what_is_open_and_no_more(service: RunningJobService, tmp_path: Path) -> None:
    """1. Two alerts open: it has both, with their labels, and will not end them by itself within days. 2. One is
    cleared: it is resolved there, and the other stays. 3. It opens once more."""
    with alertmanager(tmp_path) as manager:
        target = Target(name="pager", shape=Shape.ALERTMANAGER, url=SecretStr(manager.url))
        epoch = elect(service.engine, "leader", loop=LOOP)
        links = Links(runbook_url="https://git.example")
        loop = Notifications(service.engine, FakeClock(), (target,), Sender().send, gather_seconds=0.0, links=links)

        def open_and_tell(*subjects: str) -> None:
            with transaction(service.engine) as connection:
                for subject in subjects:
                    raise_alert(connection, KIND, subject, f"{subject} is ill")
            loop.round(epoch)

        def seen() -> list[str]:
            return [alert["labels"]["subject"] for alert in manager.alerts()]

        open_and_tell("etl", "sums")
        wait_until(lambda: seen() == ["etl", "sums"], 20, "both alerts")
        first, _ = manager.alerts()
        assert first["labels"] == {
            "alertname": "task_crashing",
            "service": "penstock",
            "severity": "page",
            "subject": "etl",
        }
        assert first["annotations"]["runbook"] == "https://git.example/services/ALERTS.md#task_crashing"
        assert "etl is ill" in first["annotations"].values()
        assert first["status"]["state"] == "active"
        assert datetime.fromisoformat(first["endsAt"]) > datetime.now(UTC) + timedelta(days=7)

        with transaction(service.engine) as connection:
            clear_alerts(connection, KIND, ["etl"])
        loop.round(epoch)
        wait_until(lambda: seen() == ["sums"], 20, "the end of one")
        open_and_tell("etl")
        wait_until(lambda: seen() == ["etl", "sums"], 20, "it to be open again")
