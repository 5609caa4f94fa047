"""What the Task Manager's settings may be."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from penstock.model.health import SILENT
from services.task_manager.settings import TaskManagerSettings


def test_a_quiet_container_reports_before_it_counts_as_silent() -> None:
    slowest = TaskManagerSettings(report_quiet_seconds=8.0)
    assert slowest.report_quiet_seconds + slowest.report_seconds < SILENT.total_seconds()
    with pytest.raises(ValidationError, match="report_quiet_seconds"):
        TaskManagerSettings(report_quiet_seconds=8.1)
