"""What the console asks of a Job Service that does not answer."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.control.errors import Unavailable
from penstock.wire.http import HttpClient
from services.console.api import create_console
from services.console.settings import ConsoleSettings
from tests.support.control.clock import FakeClock


def test_a_read_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages ask again by themselves."""
    sent: list[str] = []

    def no_answer(_: HttpClient, method: str, path: str, **__: Any) -> None:
        sent.append(f"{method} {path}")
        raise Unavailable("no answer")

    monkeypatch.setattr(HttpClient, "send", no_answer)
    console = create_console(ConsoleSettings(job_service_url="http://127.0.0.1:1"), FakeClock())
    with console.state.parts.connect("a token", None) as client, pytest.raises(Unavailable):
        client.fleet()
    assert sent == ["GET /v1/fleet"]
