"""What a shell completes: commands, options, and names of jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.wire.job_lists import JobLists
from tests.support.cli.shell import Shell, lone
from tests.unit.cli.test_waiting import job


def _completed(shell: Shell, monkeypatch: pytest.MonkeyPatch, typed: str) -> list[str]:
    words = typed.split(" ")
    monkeypatch.setenv("_PENSTOCK_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    return shell().ok().split()


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


def test_commands_and_options_are_completed(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _completed(shell, monkeypatch, "penstock jobs st") == ["stop", "start"]
    assert _completed(shell, monkeypatch, "penstock override etl --re") == ["--reason"]
    assert _completed(shell, monkeypatch, "penstock fields -o y") == ["yaml"]


def test_names_of_jobs_are_completed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """None while the Job Service does not answer, and nothing else is said."""
    with lone(monkeypatch, capsys, tmp_path) as shell:
        assert _completed(shell, monkeypatch, "penstock explain et") == []
        asked: list[str | None] = []

        def list_jobs(_: JobLists, *, prefix: str | None, page_size: int) -> list[object]:
            asked.append(prefix)
            return [job()] * (page_size + 1)

        monkeypatch.setattr(JobLists, "list_jobs", list_jobs)
        assert set(_completed(shell, monkeypatch, "penstock explain et")) == {"etl"}
        assert asked == ["et"]


def test_the_shell_is_told_how(shell: Shell) -> None:
    said = shell("--help").ok()
    assert "--install-completion" in said
    assert "--show-completion" in said
