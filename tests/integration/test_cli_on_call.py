"""What an on-call engineer does at night: watch a change, edit a layer, compare a folder of jobs, read a task's log."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import sys
import termios
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from sqlalchemy import text

from penstock.control.process import start_child, stop_group
from penstock.model.reports import TaskProgress, TaskReport, TaskReportBatch, TaskState
from penstock.store.cluster import ask_for_shards
from penstock.store.engine import transaction
from penstock.tasks.ownership import Member
from services.shard_manager.store.members import register
from services.shard_manager.store.owners import Change, ensure_shards, read_owners, record_owners
from services.task_service.store.reports import save_report
from tests.support.cli.shell import Shell
from tests.support.job_service.service import CONFIG, RunningJobService
from tests.support.store.running import commit_job


@pytest.fixture
def shell(shell: Shell) -> Shell:
    """A shell of the service's admin, with a job `etl`."""
    shell("jobs", "apply", "etl", json.dumps(CONFIG), "--reason", "first release").ok()
    return shell


def _run_its_task(service: RunningJobService) -> None:
    """The only task of `etl` runs in `tm-1` and has finished a batch."""
    commit_job(service.engine, "etl", task_count=1)
    progress = TaskProgress(batch_id=1, backlog_records=0)
    report = TaskReport(
        job="etl", index=0, revision=1, generation=1, restarts=0, epoch=1, state=TaskState.RUNNING, progress=progress
    )
    batch = TaskReportBatch(container="tm-1", incarnation="life", commit_number=1, version=1, tasks=(report,))
    with transaction(service.engine) as connection:
        ask_for_shards(connection, 1)
        ensure_shards(connection, 1)
        register(connection, Member("tm-1", "life", "http://127.0.0.1:7100", "local", 2.0, 2**32, 2**34), empty=True)
        save_report(connection, batch)
        record_owners(connection, {0: Change("tm-1", read_owners(connection)[0].epoch)})


def test_a_change_is_watched_until_it_runs(shell: Shell, service: RunningJobService) -> None:
    """1. Nothing runs it: exit code 3. 2. All tasks run it. 3. The State Syncer gave a later one up: exit code 1."""
    late = shell("watch", "etl", "--timeout", "1s")
    assert late.code == 3
    assert "etl is pending: waits for the State Syncer; `penstock sync etl`" in late.err
    assert "written: revision 1, base by admin" in late.out
    assert ": first release" in late.out

    _run_its_task(service)
    lines = [line.split(" s  ")[1] for line in shell("watch", "etl").ok().splitlines()]
    assert lines[1:] == [
        "committed: runs revision 1 as generation 1",
        "tasks run it: 1 of 1 tasks",
        "etl runs revision 1: 1 task, the first batch is done",
    ]

    shell("override", "etl", "task_count=2", "--reason", "more").ok()
    with transaction(service.engine) as connection:
        connection.execute(
            text("INSERT INTO sync_state (job, revision, state, detail) VALUES ('etl', 1000000, 'failed', 'no room')")
        )
    assert "etl is failed: no room" in shell("watch", "etl").refusal()
    assert "NotFound" in shell("watch", "other").refusal()


class Editor:
    """An `$EDITOR` that saves what the test says, after `meanwhile`."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._saved = folder / "saved.json"
        self._seen = folder / "seen.txt"
        script = folder / "editor.sh"
        script.write_text(f'#!/bin/sh\ncp "$1" {self._seen} && cp {self._saved} "$1"\n')
        script.chmod(0o700)
        monkeypatch.setenv("VISUAL", str(script))

    def saves(self, text: str) -> None:
        """What it saves next."""
        self._saved.write_text(text)

    def seen(self) -> str:
        """The text that it was given."""
        return self._seen.read_text()


def test_a_layer_is_edited_and_no_text_is_lost(
    shell: Shell, service: RunningJobService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. A field changes and another goes; the expiry stays. 2. Nothing changes. 3. A text that is no JSON, and one
    that the service refuses, are kept. 4. So is one for a version that is not the newest; it is used again."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shell("override", "etl", "task_count=2", "priority=1", "-r", "x", "--for", "2h").ok()
    editor = Editor(tmp_path, monkeypatch)
    editor.saves('# a note\n{"task_count": 4}\n')
    said = shell("layers", "edit", "etl", "oncall", "-r", "calmer").ok()
    assert said.startswith("patch etl oncall: ")
    assert "ends in 1h59m" in said
    assert editor.seen().startswith("# etl, layer oncall, version 1, ends ")
    assert json.loads(shell("layers", "show", "etl", "oncall").ok())["config"] == {"task_count": 4}
    assert shell("layers", "edit", "etl", "oncall").ok() == "nothing was changed\n"
    assert not list(tmp_path.glob("penstock-*"))

    wrong = {"{": "(field config, rule json_object)", "": "is empty", '{"task_count": 0}': "task_count"}
    for typed, told in wrong.items():
        editor.saves(typed)
        assert told in _and_kept(shell, tmp_path, typed)
    assert json.loads(shell("layers", "show", "etl", "oncall").ok())["version"] == 2

    def write_meanwhile(words: list[str], *, check: bool) -> CompletedProcess[bytes]:
        with service.client() as client:
            client.patch_layer("etl", "oncall", {"priority": 2}, if_match=2)
        Path(words[-1]).write_text('{"task_count": 6}')
        return CompletedProcess(words, 0)

    with monkeypatch.context() as patched:
        patched.setattr("penstock.cli.edit.subprocess.run", write_meanwhile)
        refused = shell("layers", "edit", "etl", "oncall").refusal()
    assert "the layer oncall has changed since version 2: " in refused
    assert ": priority: unset -> 2. Nothing of yours was written: give the command again. Your text is kept" in refused
    [kept] = tmp_path.glob("penstock-*")
    monkeypatch.setenv("VISUAL", "true")
    shell("layers", "edit", "etl", "oncall", "--from", str(kept)).ok()
    assert json.loads(shell("layers", "show", "etl", "oncall").ok())["config"] == {"task_count": 6}
    monkeypatch.setenv("VISUAL", "false")
    assert "false ended with code 1" in shell("layers", "edit", "etl", "oncall").refusal()


def _and_kept(shell: Shell, folder: Path, typed: str) -> str:
    refused = shell("layers", "edit", "etl", "oncall").refusal()
    [kept] = folder.glob("penstock-*")
    assert f"--from {kept}`" in refused
    assert kept.read_text() == typed
    kept.unlink()
    return refused


def test_a_folder_of_jobs_is_applied_with_a_report(shell: Shell, tmp_path: Path) -> None:
    """1. What differs, and which layer hides a value. 2. It is done; then nothing differs. 3. A file that is refused
    keeps all of them from being written. 4. Jobs without a file go, when the user says so."""
    folder = tmp_path / "jobs"
    folder.mkdir()
    apply = ("apply", "-f", str(folder))
    assert "(field folder, rule not_empty)" in shell(*apply).refusal()
    shell("override", "etl", "task_count=3", "-r", "x").ok()
    (folder / "etl.json").write_text(json.dumps({**CONFIG, "task_count": 2, "priority": 1}))
    other = {**CONFIG, "output": {"type": "delta", "path": "/tables/${job}"}}
    (folder / "etl2.json").write_text(json.dumps(other))
    seen = shell(*apply, "--dry-run")
    assert seen.code == 4
    assert "change etl\n  priority: unset -> 1\n" in seen.out
    assert "  task_count: the layer oncall of admin hides it with 3\n" in seen.out
    assert seen.out.endswith("create etl2\n1 create, 1 change\n")
    assert "NotFound" in shell("jobs", "show", "etl2").refusal()

    said = shell(*apply, "-r", "release 2").ok()
    assert "create etl2 base: " in said
    assert shell(*apply).ok() == "2 same\n"

    (folder / "etl2.json").write_text(json.dumps({**other, "priority": 2}))
    (folder / "bad.json").write_text(json.dumps({**CONFIG, "task_count": 0}))
    refused = shell(*apply)
    assert (refused.code, "bad: " in refused.err, "InvalidConfig: " in refused.err) == (1, True, True)
    assert json.loads(shell("layers", "show", "etl2", "base").ok())["version"] == 1
    (folder / "bad.json").write_text("[]")
    assert f"{folder / 'bad.json'}: write a JSON object" in shell(*apply).refusal()

    (folder / "bad.json").unlink()
    (folder / "etl2.json").unlink()
    assert "(field prune, rule required)" in shell(*apply, "--prune").refusal()
    assert "would be deleted: etl2. Add --yes" in shell(*apply, "--prune", "--prefix", "etl").refusal()
    assert "delete etl2: " in shell(*apply, "--prune", "--prefix", "etl", "--yes").ok()
    assert shell(*apply, "--prune", "--prefix", "etl", "--yes").ok() == "1 same\n"


def test_top_follows_keys_in_a_terminal_until_q(shell: Shell) -> None:
    """In a real one, by a process of its own. 1. By health. 2. `n`: by name. 3. `r`: turned round. 4. `q`: it ends with
    0, and the terminal shows what is typed again."""
    shell("jobs", "apply", "sessions", json.dumps(CONFIG), "--reason", "first release").ok()
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    words = (sys.executable, "-m", "penstock.cli", "top", "--every", "600")
    child = start_child(words, stdin=theirs, stdout=theirs, env={**os.environ, "TERM": "xterm"})
    try:
        read_until(ours, "by health")
        for key, order, first, second in (("n", "by name", "etl", "sessions"), ("r", "reversed", "sessions", "etl")):
            os.write(ours, key.encode())
            seen = read_until(ours, f"{order}.*{first}.*{second}.*q quit")
            assert "2 jobs, 0 not well" in seen
        os.write(ours, b"q")
        assert child.wait(60) == 0
        assert termios.tcgetattr(theirs) == before
    finally:
        stop_group(child, 5.0)
        os.close(ours)
        os.close(theirs)


def read_until(terminal: int, pattern: str) -> str:
    """What a terminal shows, up to what matches."""
    seen = ""
    while re.search(pattern, seen, re.DOTALL) is None:
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, f"no {pattern} in {seen}"
        seen += os.read(terminal, 65536).decode(errors="replace")
    return seen
