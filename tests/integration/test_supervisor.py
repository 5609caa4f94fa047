"""The supervisor over tiny real processes."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from penstock.control.errors import TerminalError
from penstock.control.process import group_lives, wait_until
from penstock.local.ports import free_port
from penstock.local.settings import child_environment
from penstock.local.supervisor import ProcessSpec, Supervisor
from tests.support import calls
from tests.support.local.told import Told

WAIT_S = 20.0
SERVER = """
import http.server, os, subprocess, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["WHO"].encode())
print("serving", flush=True)
helper = subprocess.Popen(["sleep", "600"])
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.fixture
def told() -> Told:
    return Told(WAIT_S)


@pytest.fixture
def supervisor(tmp_path: Path, told: Told) -> Iterator[Supervisor]:
    made = Supervisor(tmp_path / "logs", told)
    yield made
    made.stop()


def _server(name: str) -> ProcessSpec:
    port = free_port()
    env = child_environment({"WHO": name}, own_kafka=True)
    return ProcessSpec(name, (sys.executable, "-c", SERVER, str(port)), env, f"http://127.0.0.1:{port}/")


def _broken(name: str) -> ProcessSpec:
    command = (sys.executable, "-S", "-c", "raise SystemExit(3)")
    return ProcessSpec(name, command, child_environment({}, own_kafka=True), f"http://127.0.0.1:{free_port()}/")


def test_processes_are_ready_with_their_environment_and_log(supervisor: Supervisor) -> None:
    one, other = _server("one"), _server("other")
    supervisor.start((one, other))
    assert stat.S_IMODE(supervisor.log_path("one").parent.stat().st_mode) == 0o700
    for spec in (one, other):
        assert 0 < supervisor.wait_ready(spec.name, WAIT_S) < WAIT_S
        assert calls.get(spec.ready_url).text == spec.name
        assert supervisor.log_path(spec.name).read_text().startswith("serving\n")
        # Files that it makes are for its account only.
        assert "Umask:\t0077\n" in Path(f"/proc/{supervisor.pid(spec.name)}/status").read_text()


def test_a_killed_process_is_started_again_and_said_so(supervisor: Supervisor, told: Told) -> None:
    """What it had started itself is ended too; its neighbour is left alone."""
    supervisor.start((_server("one"), _server("other")))
    supervisor.wait_ready("one", WAIT_S)
    first, neighbour = supervisor.pid("one"), supervisor.pid("other")
    os.kill(first, signal.SIGKILL)
    told.wait_for("one started again")
    assert told.lines == ["one ended (signal 9)", f"one started again (pid {supervisor.pid('one')})"]
    supervisor.wait_ready("one", WAIT_S)
    assert supervisor.pid("one") != first
    assert supervisor.pid("other") == neighbour
    wait_until(lambda: not group_lives(first), WAIT_S, "what it had started to end")


def test_one_that_ends_at_once_is_tried_later_and_later(supervisor: Supervisor, told: Told) -> None:
    """Pauses of 0.5 s and 1 s; in the third, of 2 s, it is not tried yet when the test ends."""
    supervisor.start((_broken("broken"),))
    told.wait_for("broken ended (exit 3)", times=3)
    assert sum("started again" in line for line in told.lines) == 2
    with pytest.raises(TimeoutError, match=r"broken to be ready \(see .*broken\.log\)"):
        supervisor.wait_ready("broken", 0.1)


def test_one_that_ends_again_and_again_is_waited_for_no_longer(supervisor: Supervisor) -> None:
    command = (sys.executable, "-S", "-c", "print('no key'); raise SystemExit(3)")
    spec = ProcessSpec("broken", command, child_environment({}, own_kafka=True), f"http://127.0.0.1:{free_port()}/")
    supervisor.start((spec,))
    with pytest.raises(TerminalError) as failure:
        supervisor.wait_ready("broken")
    log_path = supervisor.log_path("broken")
    first, *told = failure.value.detail.splitlines()
    assert first == f"broken ended 3 times before it was ready (exit 3); the end of {log_path}:"
    assert set(told) == {"no key"}


def test_what_is_taken_down_stays_down_until_it_is_brought_up(supervisor: Supervisor, told: Told) -> None:
    """1. Taken down with all its group. 2. A neighbour is restarted meanwhile, it is not. 3. Brought up."""
    one, other = _server("one"), _server("other")
    supervisor.start((one, other))
    supervisor.wait_ready("one", WAIT_S)
    first = supervisor.pid("one")
    supervisor.take_down("one")
    wait_until(lambda: not group_lives(first), WAIT_S, "what it had started to end")

    os.kill(supervisor.pid("other"), signal.SIGKILL)
    told.wait_for("other started again")
    assert not any("one" in line for line in told.lines)
    with pytest.raises(httpx.ConnectError):
        calls.get(one.ready_url)

    supervisor.bring_up("one")
    told.wait_for("one started again")
    supervisor.wait_ready("one", WAIT_S)
    assert calls.get(one.ready_url).text == "one"


def test_stop_leaves_none_behind(supervisor: Supervisor, told: Told) -> None:
    """Neither the processes, nor what they started, nor one that is waiting to be started again."""
    supervisor.start((_server("one"), _server("other"), _broken("broken")))
    for name in ("one", "other"):
        supervisor.wait_ready(name, WAIT_S)
    groups = [supervisor.pid(name) for name in ("one", "other", "broken")]
    told.wait_for("broken ended")
    supervisor.stop()
    assert [group for group in groups if group_lives(group)] == []
    heard = len(told.lines)
    supervisor.stop()
    assert len(told.lines) == heard


def test_a_supervisor_that_never_started_stops(supervisor: Supervisor, told: Told) -> None:
    supervisor.stop()
    assert told.lines == []
