"""Children end with their parent, groups end whole, and waiting ends with a name."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import psutil
import pytest

from penstock.control.process import group_lives, kill_group, start_child, stop_group, wait_until
from penstock.local.folder import end_orphan

PAUSE = "import signal; print('ready', flush=True); signal.pause()"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {PAUSE}"
PARENT = f"""
    import signal, subprocess, sys
    from penstock.control.process import start_child
    child = start_child([sys.executable, "-c", {PAUSE!r}], stdout=subprocess.DEVNULL)
    print(child.pid, flush=True)
    signal.pause()
"""
FAMILY = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {DEAF!r}]); {PAUSE}"


def start(script: str) -> tuple[subprocess.Popen[bytes], str]:
    """A child running the script, and the first line that it prints."""
    child = start_child([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    return child, child.stdout.readline().decode().strip()


def test_waiting_returns_what_the_condition_returned() -> None:
    answers = iter([None, 0, "", "yes"])
    assert wait_until(lambda: next(answers), 5, "an answer", poll_s=0) == "yes"


def test_waiting_in_vain_names_what_was_waited_for() -> None:
    with pytest.raises(TimeoutError, match=r"waited 0\.01 s for the moon"):
        wait_until(lambda: False, 0.01, "the moon", poll_s=0.001)


def test_a_group_ends_on_the_first_signal() -> None:
    child, _ = start(PAUSE)
    assert stop_group(child, 10) == -signal.SIGTERM
    assert stop_group(child, 10) == -signal.SIGTERM


def test_a_group_that_does_not_listen_is_killed() -> None:
    child, _ = start(DEAF)
    assert stop_group(child, 0.1) == -signal.SIGKILL


def test_children_of_the_child_end_with_the_group() -> None:
    child, _ = start(FAMILY)
    stop_group(child, 0.2)
    wait_until(lambda: not group_lives(child.pid), 5, "the group to end")
    assert not group_lives(child.pid)


def test_a_child_dies_with_a_parent_that_is_killed() -> None:
    parent, line = start(PARENT)
    child = psutil.Process(int(line))
    parent.kill()
    parent.wait()
    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, 5, "the child to die")
    assert not group_lives(child.pid)


def test_a_child_outlives_the_thread_that_asked_for_it() -> None:
    started: list[subprocess.Popen[bytes]] = []
    thread = threading.Thread(target=lambda: started.append(start(PAUSE)[0]))
    thread.start()
    thread.join()
    with pytest.raises(subprocess.TimeoutExpired):
        started[0].wait(0.3)
    assert kill_group(started[0]) == -signal.SIGKILL


def test_output_goes_to_the_log(tmp_path: Path) -> None:
    log_path = tmp_path / "logs" / "child.log"
    child = start_child(
        [sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr)"], log_path=log_path
    )
    assert child.wait(10) == 0
    assert sorted(log_path.read_text().split()) == ["err", "out"]


def test_a_command_that_is_not_there_is_an_error_of_the_caller() -> None:
    with pytest.raises(FileNotFoundError):
        start_child(["no-such-program-anywhere"])


def test_an_orphan_is_ended_and_a_reused_pid_is_left_alone() -> None:
    child, _ = start(DEAF)
    assert not end_orphan(child.pid, ["other", "words"], signal.SIGTERM, 0.1)
    assert child.poll() is None
    assert end_orphan(child.pid, [sys.executable, "-c"], signal.SIGTERM, 0.1)
    assert child.wait(5) == -signal.SIGKILL
