"""What the demo says while it runs; of its stack and its jobs there is only what it asks of them."""

from __future__ import annotations

import io
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from penstock.local.demo import run as module

CONSOLE = "http://127.0.0.1:7077"


class Stack(nullcontext[None]):
    """Nothing runs."""

    url, console_url = "http://127.0.0.1:7070", CONSOLE

    def __init__(self, data_dir: Path, **given: Any) -> None:
        super().__init__()
        assert given["console"] is True
        self.data_dir = data_dir


@pytest.mark.parametrize("keep", [False, True])
def test_the_demo_says_the_address_of_the_console(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, keep: bool) -> None:
    """At the start, with where the token is; with `keep` at the end, too."""
    monkeypatch.setattr(module, "LocalStack", Stack)
    monkeypatch.setattr(module, "_play", lambda *_: [])
    monkeypatch.setattr(module, "definitions", lambda: None)
    monkeypatch.setattr(module.signal, "pause", lambda: None)
    written = io.StringIO()
    assert module.run(Console(file=written, width=200), tmp_path / "demo", keep=keep, feed_seconds=1.0) == 0
    said = written.getvalue()
    assert f"console: {CONSOLE}, token in {tmp_path / 'demo' / 'admin.token'}" in said
    assert (f"its console at {CONSOLE}; Ctrl-C ends it" in said) is keep
