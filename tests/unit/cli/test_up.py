"""What `penstock up` and the demo refuse before they start anything."""

from __future__ import annotations

import pytest

from penstock.cli import demo_program
from penstock.cli.up import require_http
from penstock.control.errors import UserError
from penstock.control.settings import CommonSettings


def test_tls_on_loopback_is_refused_with_what_to_do() -> None:
    require_http(CommonSettings())
    with pytest.raises(UserError, match=r"CELL\.md") as refused:
        require_http(CommonSettings(internal_tls=True))
    assert refused.value.field == "PENSTOCK_INTERNAL_TLS"


def test_the_demo_refuses_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_program, "run", lambda *_, **__: 0)
    monkeypatch.setattr(demo_program, "end_on_signals", lambda: None)
    monkeypatch.setattr(demo_program.logs, "configure", lambda *_, **__: None)
    monkeypatch.setenv("PENSTOCK_INTERNAL_TLS", "true")
    with pytest.raises(UserError, match="penstock demo"):
        demo_program.demo()
