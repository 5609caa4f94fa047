"""The set-up asks the indexes that pip is configured with."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.setup import packages

CONFIGURED = """\
:env:.cert='/etc/own.pem'
:env:.default-timeout='180'
:env:.find-links='/one /two'
global.cert='/etc/other.pem'
global.index-url='https://own.example/simple'
global.extra-index-url='https://one.example\\nhttps://two.example'
global.no-index='true'
"""


def test_what_pip_is_configured_with_is_told_to_uv() -> None:
    """The environment wins over files; what is no question of where packages come from is left out."""
    assert list(packages._options_of_pip(CONFIGURED)) == [
        *("--cert", "/etc/own.pem"),
        *("--default-index", "https://own.example/simple"),
        *("--index", "https://one.example"),
        *("--index", "https://two.example"),
        *("--find-links", "/one"),
        *("--find-links", "/two"),
        "--no-index",
    ]
    assert list(packages._options_of_pip("")) == []


def test_where_uv_fails_pip_installs_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text("one==1 \\\n    --hash=sha256:0\nuv==2 \\\n    --hash=sha256:1\n")
    asked: list[list[str]] = []
    monkeypatch.setattr(packages, "_pip", lambda requirements, _: asked.append(requirements) or "")
    monkeypatch.setattr(packages, "_uv", lambda *_: "no such index")
    packages.install(lock)
    assert [[each.split()[0] for each in some] for some in asked] == [["uv==2"], ["one==1", "uv==2"]]
    assert "no such index" in capsys.readouterr().err
