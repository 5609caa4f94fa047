"""Each bench explains itself, so all that it imports is there: in `make test` not every bench runs."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests import bench

_BENCHES = Path(bench.__path__[0]).glob("*.py")
NAMES = sorted(path.stem for path in _BENCHES if "def main() -> None:" in path.read_text())


@pytest.mark.parametrize("name", NAMES)
def test_a_bench_explains_itself(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        import_module(f"tests.bench.{name}").main()
    assert ended.value.code == 0
    assert "usage:" in capsys.readouterr().out
