"""What `penstock apply` refuses, and in what order it writes: against a cell that only keeps what it is asked."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.cli import apply as module
from penstock.control.errors import Conflict, InvalidConfig, NotFound, VersionConflict
from penstock.model.states import JobState
from tests.support.cli.shell import Shell

CONFIG = {"owner": "ann"}


class Cell:
    """Jobs by name, with what they have and the calls that were made. Spark refuses the jobs of `refused`."""

    def __init__(self) -> None:
        self.jobs = {"old": CONFIG, "other": CONFIG}
        self.states: dict[str, JobState] = {}
        self.refused: set[str] = set()
        self.broken: set[str] = set()
        self.calls: list[str] = []

    def list_jobs(self, *, prefix: str | None = None, owner: str | None = None, state: Any = None) -> Iterator[Any]:
        for job in list(self.jobs):
            its_state = self.states.get(job, JobState.SYNCED)
            if job.startswith(prefix or "") and state in (None, its_state):
                yield SimpleNamespace(job=job, state=its_state)

    def get_layer(self, job: str, layer: str) -> Any:
        if job not in self.jobs:
            raise NotFound(f"there is no job {job}")
        return SimpleNamespace(config=self.jobs[job], version=3)

    def plan(self, *_: object, **__: object) -> Any:
        return SimpleNamespace(notes=[])

    def put_job(self, job: str, *_: object, **__: object) -> Any:
        if job in self.refused:
            raise InvalidConfig("Spark found no table flights", field="query.sql", rule="analysis")
        self.calls.append(f"put {job}")
        return SimpleNamespace(job=job, action="create", revision=7)

    def delete_job(self, job: str, *, if_match: int, **_: object) -> Any:
        if if_match != 3 or job in self.refused:
            raise VersionConflict(f"the layer base of {job} is at version 4, not {if_match}", current_version=4)
        self.calls.append(f"delete {job}")
        return SimpleNamespace(job=job, action="delete", revision=8)


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    cell = Cell()
    monkeypatch.setattr(module, "client", lambda: cell)
    monkeypatch.setattr(module, "say_written", lambda _: None)
    return cell


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "new.json").write_text(json.dumps(CONFIG))
    return folder


@pytest.mark.parametrize("option", ["prefix", "owner"])
def test_an_empty_filter_is_refused(shell: Shell, cell: Cell, folder: Path, option: str) -> None:
    """It would name every job of the cell."""
    for more in (("--prune", "--yes"), ()):
        told = shell("apply", "-f", str(folder), f"--{option}", "", *more).refusal()
        assert f"(field {option}, rule not_empty)" in told
    assert cell.calls == []


def test_nothing_is_deleted_when_a_write_was_refused(shell: Shell, cell: Cell, folder: Path) -> None:
    """The job without a file may be what the refused one replaces. Else deletes come last."""
    (folder / "zebra.json").write_text(json.dumps(CONFIG))
    prune = ("apply", "-f", str(folder), "--prune", "--prefix", "o", "--yes")
    cell.refused = {"zebra"}
    told = shell(*prune)
    assert (told.code, cell.calls) == (1, ["put new"])
    assert "Spark found no table" in told.err
    assert "no job was deleted" in told.err
    cell.refused, cell.calls = set(), []
    shell(*prune).ok()
    assert cell.calls == ["put new", "put zebra", "delete old", "delete other"]


def test_it_waits_for_each_job_and_names_those_that_cannot_run(
    shell: Shell, cell: Cell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are looked at before it ends. The jobs share one time."""
    waits: list[tuple[str, float]] = []

    def wait_for(_: object, job: str, revision: int, seconds: float) -> None:
        waits.append((job, seconds))
        if job in cell.broken:
            raise Conflict(f"{job} is failed at {revision}", field="job", rule="runs")

    monkeypatch.setattr(module, "wait_for", wait_for)
    monkeypatch.setattr(module, "wait_until_gone", lambda _, job, seconds: waits.append((job, seconds)))
    (folder / "zebra.json").write_text(json.dumps(CONFIG))
    prune = ("apply", "-f", str(folder), "--prune", "--prefix", "old", "--yes", "--wait", "--timeout", "60s")
    shell(*prune).ok()
    assert [job for job, _ in waits] == ["new", "zebra", "old"]
    assert 60 >= waits[0][1] >= waits[1][1] >= waits[2][1] > 0
    cell.broken = {"new"}
    told = shell(*prune)
    assert (told.code, [job for job, _ in waits[3:]]) == (1, ["new", "zebra", "old"])
    assert "new is failed at 7" in told.err
    assert "1 of 3 jobs cannot run" in told.err


def test_a_job_of_the_folder_that_is_being_deleted_is_not_the_same(shell: Shell, cell: Cell, folder: Path) -> None:
    """It would be gone soon, and nobody would make it again. Nothing is written."""
    cell.jobs["new"] = CONFIG
    cell.states["new"] = JobState.DELETING
    (folder / "zebra.json").write_text(json.dumps(CONFIG))
    for more in ((), ("--dry-run",)):
        told = shell("apply", "-f", str(folder), *more)
        assert (told.code, cell.calls) == (1, [])
        assert told.out == "being deleted new\ncreate zebra\n1 create, 1 being deleted\n"
        assert "the job new is being deleted: wait until it is gone" in told.err


@pytest.mark.parametrize("more", ["team/etl.json", "etl.yaml", "ETL.JSON", "etl", "sub.json/x"])
def test_a_folder_with_more_than_files_of_jobs_prunes_nothing(
    shell: Shell, cell: Cell, folder: Path, more: str
) -> None:
    """What it does not show is no reason to delete a job. Hidden files are no jobs."""
    prune = ("apply", "-f", str(folder), "--prune", "--prefix", "o", "--yes")
    (folder / more).parent.mkdir(exist_ok=True)
    (folder / more).write_text(json.dumps(CONFIG))
    (folder / ".git").mkdir()
    told = shell(*prune).refusal()
    assert f"{folder / Path(more).parts[0]} is no file JOB.json" in told
    assert "(field prune, rule only_jobs)" in told
    assert cell.calls == []
    (folder / more).unlink()
    if (folder / more).parent != folder:
        (folder / more).parent.rmdir()
    shell(*prune).ok()
    assert cell.calls == ["put new", "delete old", "delete other"]


def test_a_job_that_changed_since_it_was_listed_is_not_deleted(shell: Shell, cell: Cell, folder: Path) -> None:
    cell.refused = {"old"}
    told = shell("apply", "-f", str(folder), "--prune", "--prefix", "o", "--yes")
    assert (told.code, cell.calls) == (1, ["put new", "delete other"])
    assert "old: the layer base of old is at version 4, not 3" in told.err


def test_a_terminal_shows_how_many_jobs_are_read_checked_and_written(
    shell: Shell, cell: Cell, folder: Path, drawn: io.StringIO
) -> None:
    (folder / "zebra.json").write_text(json.dumps(CONFIG))
    shell("apply", "-f", str(folder)).ok()
    for told in ("reading jobs: 2 of 2", "checking jobs: 2 of 2", "writing jobs: 2 of 2"):
        assert told in drawn.getvalue()
