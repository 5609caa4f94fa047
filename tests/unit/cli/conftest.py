"""What a terminal would get."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from penstock.cli import bar, output


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What commands draw on a terminal."""
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=80, color_system=None)
    for module in (bar, output):
        monkeypatch.setattr(module, "out", console)
        monkeypatch.setattr(module, "err", console)
    return written
