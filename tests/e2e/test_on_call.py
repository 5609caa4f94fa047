"""A night on call by the commands of README.md: find the job that lags, see why, override it, watch, and it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock.control.process import wait_until
from tests.support.chaos.stack import ChaosStack
from tests.support.cli.documents import commands
from tests.support.cli.terminal import Terminal
from tests.support.stack.late import FIELD, SLOW, LateJob, late
from tests.tidy.source import REPOSITORY

pytestmark = pytest.mark.long
MORE, SHORTLY = 2_000, 5 * SLOW
LASTS_S = 45
SOON_S = 120.0
FOLLOWED_S = 60.0


@pytest.fixture(scope="module")
def job(stack: ChaosStack) -> Iterator[LateJob]:
    """One that lags. The stories follow one another in their order."""
    with late(stack) as lagging:
        yield lagging


@pytest.fixture
def night(terminal: Terminal, job: LateJob) -> Callable[..., str]:
    """What the command of README.md that begins so says of the job. `given`: what its words stand for."""
    shown = commands(REPOSITORY / "README.md", "On call")

    def say(beginning: str, **given: str) -> str:
        [line] = [line for line in shown if line.startswith(f"penstock {beginning}")]
        for word, meant in {"JOB": job.name, "FIELD=VALUE": f"{FIELD}={MORE}", **given}.items():
            line = line.replace(word, meant)
        return terminal(line)

    return say


def test_a_lagging_job_is_found_and_mended_for_half_an_hour(night: Callable[..., str], job: LateJob) -> None:
    """1. All parts are well, and the list has the job, with its lag. 2. `why` names the layer that limits it, and what
    to do; the batches are as small. 3. The plan writes nothing. 4. An override with a reason. 5. It is watched until
    the task runs it. 6. The task reads more, and the job is well. 7. `explain` says who, why, until when, over what."""
    assert "not well" not in night("status")
    for listed in (night("jobs list"), night("top")):
        assert job.name in listed
        assert "lagging" in listed
    first = night("why").split("\n2. ")[0]
    assert "1. a layer limits what tasks read (held_by_layer, certain)" in first
    assert f"the layer base sets {FIELD} to {SLOW}" in first
    assert f"to do: `penstock override {job.name} {FIELD}={10 * SLOW} --reason ... --for 2h`" in first
    assert job.is_limited_to(SLOW)

    assert "restart" in night("plan")
    assert "ends in " in night("override JOB FIELD=VALUE", **{"...": "rows wait"})
    watched = night("watch")
    assert "oncall by local-admin" in watched
    assert ": rows wait" in watched
    assert "tasks run it: 1 of 1 tasks" in watched
    wait_until(lambda: max(job.batches()) > 10 * SLOW, SOON_S, "a large batch")
    wait_until(lambda: job.name not in night("jobs list"), SOON_S, "the job to be well", poll_s=0.5)
    wait_until(lambda: "nothing is wrong with it" in night("why"), SOON_S, "its lag to be measured", poll_s=0.5)
    assert f"base={SLOW}" in night("explain")
    leaves = json.loads(night("explain JOB", JOB=f"{job.name} --json"))["leaves"]
    [leaf] = [each for each in leaves if each["field"] == FIELD]
    assert (leaf["value"], leaf["layer"], leaf["reason"]) == (MORE, "oncall", "rows wait")
    left = datetime.fromisoformat(leaf["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=25) < left < timedelta(minutes=30)


def test_an_override_of_seconds_expires_by_itself(terminal: Terminal, job: LateJob) -> None:
    """1. The task runs it. 2. Nobody does anything: it has expired, and the history says so. 3. The task reads as much
    as the base layer has it."""
    words = f'{FIELD}={SHORTLY} --for {LASTS_S}s --whole-layer --reason "for a moment"'
    terminal(f"penstock override {job.name} {words}")
    terminal(f"penstock watch {job.name}")
    job.send(20 * SHORTLY)
    wait_until(lambda: job.is_limited_to(SHORTLY), LASTS_S, f"batches of {SHORTLY} rows")
    _wait_said(terminal, f"penstock history {job.name} --json", lambda said: _newest(said) == "expire", SOON_S)
    shown = json.loads(terminal(f"penstock jobs show {job.name}"))
    assert shown["config"][FIELD] == SLOW
    [layer] = [each for each in shown["layers"] if each["layer"] == "oncall"]
    assert layer["expires_at"] is None
    terminal(f"penstock watch {job.name}")
    job.send(20 * SLOW)
    wait_until(lambda: job.is_limited_to(SLOW), SOON_S, f"batches of {SLOW} rows")


def _newest(history: str) -> str:
    return str(json.loads(history)["entries"][0]["action"])


def _wait_said(terminal: Terminal, line: str, holds: Callable[[str], bool], seconds: float = SOON_S) -> None:
    wait_until(lambda: holds(terminal(line)), seconds, line, poll_s=0.5)


def test_the_log_of_a_host_is_read_and_followed(terminal: Terminal, job: LateJob, tmp_path: Path) -> None:
    """1. It names the task. 2. A new line comes when the task is restarted, without another command."""
    assert f"{job.name}/0" in terminal(f"penstock logs {job.name} 0")
    with _following(job.name, tmp_path) as text:
        wait_until(text, FOLLOWED_S, "the lines so far", poll_s=0.2)
        before = text().count(f"{job.name}/0")
        terminal(f'penstock restart {job.name} --reason "to see it"')
        wait_until(lambda: text().count(f"{job.name}/0") > before, FOLLOWED_S, "a new line", poll_s=0.2)


@contextmanager
def _following(job: str, folder: Path) -> Iterator[Callable[[], str]]:
    """`penstock logs -f` in a process of its own, until Ctrl-C; what it has printed."""
    out = folder / "followed"
    penstock = Path(sys.executable).parent / "penstock"
    with out.open("wb") as stream, subprocess.Popen([penstock, "logs", job, "0", "-f"], stdout=stream) as process:
        try:
            yield out.read_text
        finally:
            os.kill(process.pid, signal.SIGINT)
            assert process.wait(FOLLOWED_S) == 0
