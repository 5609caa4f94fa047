"""Ways in which a host ends, and that its JVM never stays behind.

The last tests of other files end the hosts of their files in the ways that need no settings: a JVM is killed
(`test_owners`), a host is killed (`redistribute/test_hosts`), killed by its supervisor (`test_hadoop_checkpoints`),
its lease runs out (`test_host_access`), stopped (`test_slow_tasks`), without memory (`test_loads`).
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.control.clock import SystemClock
from penstock.control.errors import Unavailable
from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.channel import EVENTS, Exit, Lease, Prepare, Ready, Start
from penstock.spark.host.exits import ExitReason
from tests.support.spark.hosts import (
    END_SECONDS,
    READY_SECONDS,
    REPLY_SECONDS,
    Supervisor,
    job_config,
    jvm_pid,
    make_topic,
    running_host,
    runs,
    settings_for,
    task_spec,
    wait_gone,
)


@pytest.mark.long
def test_a_killed_supervisor_takes_host_and_jvm_along(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.spark.lone_supervisor", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout is not None
        host, jvm = map(int, supervisor.stdout.readline().split())
        assert runs(host)
        assert runs(jvm)
        supervisor.kill()
    wait_gone(host)
    wait_gone(jvm)


def test_the_end_of_the_command_pipe_ends_host_and_jvm(tmp_path: Path) -> None:
    """As when the supervisor is gone and the kernel's death signal is not: started by plain `subprocess`."""
    (command_reader, command_writer), (event_reader, event_writer) = os.pipe(), os.pipe()
    options = ["--commands", str(command_reader), "--events", str(event_writer), "--name", "piped"]
    with (tmp_path / "piped.log").open("wb") as log:
        host = subprocess.Popen(
            [sys.executable, "-m", "penstock.spark.host", *options],
            env=settings_for(tmp_path, "127.0.0.1:9").to_environment(),
            pass_fds=(command_reader, event_writer),
            stdout=log,
            stderr=log,
        )
    os.close(command_reader)
    os.close(event_writer)
    with os.fdopen(event_reader, "rb") as events:
        ready = EVENTS.validate_json(events.readline())
        assert isinstance(ready, Ready)
        os.close(command_writer)
        assert host.wait(END_SECONDS) == ExitReason.SUPERVISOR_GONE
    wait_gone(ready.jvm_pid)


@pytest.mark.long
def test_a_host_that_is_asked_to_exit_does(tmp_path: Path) -> None:
    """So ends each host of a Task Manager that is stopped."""
    with running_host("asked", settings_for(tmp_path, "127.0.0.1:9"), tmp_path) as supervisor:
        assert supervisor.host.send(Exit(id=0)).result(REPLY_SECONDS).ok
        assert supervisor.exit.result(REPLY_SECONDS) is ExitReason.ASKED
        wait_gone(jvm_pid(supervisor))


@pytest.mark.long
def test_after_a_stop_the_lease_comes_before_waiting_commands(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """1. The host is stopped. 2. Its lease runs out; a start and a lease of that time wait in the pipe.
    3. It continues: nothing is started or prepared, and the old lease saves nothing."""
    topic = make_topic(kafka.bootstrap, 1)
    spec = task_spec("late", job_config(topic, 1, {"type": "files", "path": str(tmp_path / "out")}))
    with running_host("stopped", settings_for(tmp_path, kafka.bootstrap), tmp_path) as supervisor:
        for seconds in (60.0, 2.0):
            supervisor.host.send(Lease(id=0, seconds=seconds)).result(REPLY_SECONDS)
        os.kill(supervisor.host.pid, signal.SIGSTOP)
        clock = SystemClock()
        over = clock.monotonic() + 2.5
        supervisor.host.send(Lease(id=0, seconds=1))
        starting = supervisor.host.send(Start(id=0, spec=spec, epoch=1))
        preparing = supervisor.host.send(Prepare(id=0, spec=spec))
        wait_until(lambda: clock.monotonic() > over, 5, "the lease to run out")
        os.kill(supervisor.host.pid, signal.SIGCONT)
        assert supervisor.exit.result(10 + END_SECONDS) is ExitReason.LEASE_LOST
        if not isinstance(starting.exception(REPLY_SECONDS), Unavailable):
            # By which of the two depends on who sees first that the lease is over.
            assert re.search("this host (is ending|has no good lease)", str(starting.result().error))
        if not isinstance(preparing.exception(REPLY_SECONDS), Unavailable):
            # It was given up, or it was refused.
            assert preparing.result().result != {"prepared": True}
        assert not (tmp_path / "checkpoints").exists()


@pytest.mark.long
@pytest.mark.parametrize(
    "conf",
    [{"spark.driver.extraJavaOptions": "-Xmx1g"}, {"spark.master": "no-such-master"}],
    ids=["a jvm that does not start", "a session that does not start"],
)
def test_a_host_that_cannot_start_says_so(tmp_path: Path, conf: dict[str, str]) -> None:
    """In the form of its container's log, too."""
    log = tmp_path / "broken.log"
    settings = settings_for(tmp_path, "127.0.0.1:9", spark_conf=conf, log_format="json")
    supervisor = Supervisor("broken", settings, log)
    with pytest.raises(Unavailable, match="not_started"):
        supervisor.host.ready.result(READY_SECONDS)
    assert supervisor.exit.result(REPLY_SECONDS) is ExitReason.NOT_STARTED
    own = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert [each["service"] for each in own if each["event"] == "host cannot start"] == ["host broken"]
