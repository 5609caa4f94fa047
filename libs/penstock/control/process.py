"""Child processes that never outlive their parent, and waiting that always ends.

Everything Penstock starts (services, Spark hosts, embedded servers) is started here, so that one place knows the
three traps of Unix children:

- A child that is killed alone leaves its own children behind. Every child leads a session and a process group of its
  own, and it is the group that is stopped.
- A parent that dies by `kill -9` cannot clean up. The kernel does it instead: `PR_SET_PDEATHSIG` sends a signal to the
  child when its parent dies. Linux ties that signal to the *thread* that forked, so one thread that lives as long as
  the process makes all children; a child started from a short-lived worker thread would die with it.
- The parent may die between `fork` and `prctl`. The child checks who its parent is after the call.

`PR_SET_PDEATHSIG` is not inherited by grandchildren: a child that starts processes must itself start them here, or
end with them (a JVM started by a shell script that `exec`s is the same process, so that is fine).
"""

from __future__ import annotations

import ctypes
import os
import pwd
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, Any, TypeVar

import psutil

from penstock.control.private import PRIVATE_FOLDER, open_private

T = TypeVar("T")

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.02


def wait_until(condition: Callable[[], T], timeout_s: float, what: str, *, poll_s: float = _POLL_S) -> T:
    """Call `condition` until it returns something true and return that.

    `timeout_s` and `poll_s` are seconds. The condition is always tried at least once. Errors of the condition are not
    caught. Raises `TimeoutError` naming `what` when the time is over.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        outcome = condition()
        if outcome:
            return outcome
        if time.monotonic() >= deadline:
            raise TimeoutError(f"waited {timeout_s:g} s for {what}")
        time.sleep(poll_s)


def start_child(
    command: Sequence[str | Path],
    *,
    log_path: Path | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    death_signal: signal.Signals = signal.SIGKILL,
    user: str | None = None,
    stdin: int | IO[Any] = subprocess.DEVNULL,
    stdout: int | IO[Any] | None = None,
    pass_fds: Sequence[int] = (),
    umask: int = -1,
) -> subprocess.Popen[bytes]:
    """Start `command` as leader of its own session and process group (group id = its pid).

    `death_signal` is what the kernel sends it when this process dies in any way. Output and
    errors are appended to `log_path`, which only its owner reads, else inherited; `stdout` overrides the former. `user`
    is the account to run as (only root may choose), `umask` that of the child (-1: this process's). May be called from
    any thread. Raises what `subprocess.Popen` raises.
    """
    words = [str(word) for word in command]
    options: dict[str, Any] = {"env": env, "cwd": cwd, "stdin": stdin, "pass_fds": pass_fds, "umask": umask}
    options |= run_as(user)
    options |= {"start_new_session": True, "preexec_fn": _bind_to_parent(death_signal)}

    def start() -> subprocess.Popen[bytes]:
        with _open_log(log_path) as log:
            child: subprocess.Popen[bytes] = subprocess.Popen(
                words, stdout=log if stdout is None else stdout, stderr=log, **options
            )
        return child

    return _spawner.run(start)


def run_as(user: str | None) -> dict[str, Any]:
    """Options for `subprocess` to run as the account `user` and its group only; None changes nothing."""
    if user is None:
        return {}
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


def stop_group(
    process: subprocess.Popen[bytes], timeout_s: float, first_signal: signal.Signals = signal.SIGTERM
) -> int:
    """Ask the group that `process` leads to end, kill what is left after `timeout_s` seconds, and reap the leader.

    Returns the leader's exit code (negative: minus the signal that ended it). Safe to repeat.
    """
    signal_group(process.pid, first_signal)
    try:
        wait_until(lambda: process.poll() is not None and not group_lives(process.pid), timeout_s, "the group to end")
    except TimeoutError:
        signal_group(process.pid, signal.SIGKILL)
    return process.wait()


def kill_group(process: subprocess.Popen[bytes]) -> int:
    """Kill the group that `process` leads at once, reap the leader and return its exit code."""
    signal_group(process.pid, signal.SIGKILL)
    return process.wait()


def signal_group(group_id: int, number: int) -> bool:
    """Send signal `number` (0 only asks) to a process group; False when it has no member any more.

    Raises ValueError for a group that is none: to the kernel 0 is the caller's own, and 1 or less is every process.
    """
    if group_id <= 1:
        raise ValueError(f"{group_id} is no process group of a child")
    try:
        os.killpg(group_id, number)
    except ProcessLookupError:
        return False
    return True


def group_lives(group_id: int) -> bool:
    """Whether a member of the process group still runs; zombies, which hold nothing, do not count."""
    if not signal_group(group_id, 0):
        return False
    return any(_runs_in(process, group_id) for process in psutil.process_iter())


def _runs_in(process: psutil.Process, group_id: int) -> bool:
    try:
        return os.getpgid(process.pid) == group_id and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, PermissionError, psutil.Error):
        return False


def _open_log(log_path: Path | None) -> IO[bytes] | AbstractContextManager[None]:
    if log_path is None:
        return nullcontext()
    log_path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    return open(log_path, "ab", opener=open_private)


def _bind_to_parent(death_signal: signal.Signals) -> Callable[[], None] | None:
    """What the child runs between `fork` and `exec`: only calls that were bound beforehand, for it holds no locks."""
    if _prctl is None:
        return None
    prctl, parent, number = _prctl, os.getpid(), int(death_signal)

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return bind


class _Spawner:
    """One thread, as long-lived as the process, that makes every child: see the module's docstring."""

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def run(self, start: Callable[[], T]) -> T:
        """Run `start` on the thread and hand back what it returns or raises."""
        self._ensure_thread()
        future: Future[T] = Future()
        self._requests.put((start, future))
        return future.result()

    def _ensure_thread(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._serve, name="spawner", daemon=True)
                self._thread.start()

    def _serve(self) -> None:
        while True:
            start, future = self._requests.get()
            try:
                future.set_result(start())
            except BaseException as error:  # noqa: BLE001 -- it is the caller's: raised in its thread
                future.set_exception(error)


_prctl = ctypes.CDLL(None, use_errno=True).prctl if sys.platform == "linux" else None
_spawner = _Spawner()
