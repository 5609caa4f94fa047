"""Traces are sent only where the settings name a collector."""

from __future__ import annotations

import pytest

from penstock.control.settings import CommonSettings
from penstock.wire.app import traces_of


def test_tracing_is_off_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_TRACES_URL", raising=False)
    assert traces_of(CommonSettings(), "job_service") == []
    monkeypatch.setenv("PENSTOCK_TRACES_URL", "http://127.0.0.1:4318")
    assert len(traces_of(CommonSettings(), "job_service")) == 1
