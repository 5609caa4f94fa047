"""All the ways in which a host ends, and that its JVM never stays behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from penstock.control.clock import SystemClock
from penstock.control.errors import Unavailable
from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.channel import EVENTS, Exit, Lease, Ready, Start
from penstock.spark.checkpoint import last_commit, last_offset
from penstock.spark.host.exits import ExitReason
from tests.support.spark.hosts import (
    READY_SECONDS,
    REPLY_SECONDS,
    Supervisor,
    job_config,
    make_topic,
    produce,
    running_host,
    settings_for,
    task_spec,
)

END_SECONDS = 5.0


def runs(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_gone(pid: int, timeout_s: float = END_SECONDS) -> None:
    wait_until(lambda: not runs(pid), timeout_s, f"process {pid} to end")


def jvm_pid(supervisor: Supervisor) -> int:
    return supervisor.host.ready.result(READY_SECONDS).jvm_pid


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Supervisor]:
    """A host without tasks."""
    with running_host("idle", settings_for(tmp_path, "127.0.0.1:9", lease_grace_seconds=3.0), tmp_path) as supervisor:
        yield supervisor


def test_a_killed_host_takes_its_jvm_along(idle: Supervisor) -> None:
    jvm = jvm_pid(idle)
    assert runs(jvm)
    os.kill(idle.host.pid, signal.SIGKILL)
    wait_gone(jvm)
    assert idle.exit.result(REPLY_SECONDS) is ExitReason.KILLED
    with pytest.raises(Unavailable, match="killed"):
        idle.host.send(Exit(id=0)).result(REPLY_SECONDS)


def test_a_killed_jvm_takes_its_host_along(idle: Supervisor) -> None:
    os.kill(jvm_pid(idle), signal.SIGKILL)
    assert idle.exit.result(END_SECONDS) is ExitReason.JVM_DIED
    assert not idle.host.is_alive


def test_asked_to_exit(idle: Supervisor) -> None:
    jvm = jvm_pid(idle)
    assert idle.host.send(Exit(id=0)).result(REPLY_SECONDS).ok
    assert idle.exit.result(REPLY_SECONDS) is ExitReason.ASKED
    wait_gone(jvm)


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


def test_a_lease_that_runs_out_stops_the_tasks_and_then_the_host(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """1. A task runs under leases. 2. No more leases: within seconds the host and its JVM are gone, by themselves.
    3. Rows that came later were not read."""
    topic = make_topic(kafka.bootstrap, 1)
    settings = settings_for(tmp_path, kafka.bootstrap, lease_grace_seconds=5.0)
    with running_host("leased", settings, tmp_path) as supervisor:
        supervisor.host.send(Lease(id=0, seconds=300)).result(REPLY_SECONDS)
        spec = task_spec("leased", job_config(topic, 1, {"type": "files", "path": str(tmp_path / "out")}))
        checkpoint = supervisor.start(spec).result["checkpoint"]
        produce(kafka.bootstrap, topic, [{"n": 0, "word": "in time"}], 1)
        supervisor.wait_for_records(spec.task_id, 1)
        assert supervisor.host.send(Lease(id=0, seconds=1)).result(REPLY_SECONDS).ok
        assert supervisor.exit.result(6 + END_SECONDS) is ExitReason.LEASE_LOST
        wait_gone(jvm_pid(supervisor))
        assert last_offset(checkpoint) == last_commit(checkpoint)
        assert "lease ran out" in supervisor.log_path.read_text()


def test_a_stopped_host_cannot_keep_its_jvm_alive(idle: Supervisor) -> None:
    """SIGSTOP stops the Python process only: the JVM has a watch of its own."""
    for seconds in (60.0, 2.0):  # the first lease takes a while: the JVM's watch is loaded for it
        idle.host.send(Lease(id=0, seconds=seconds)).result(REPLY_SECONDS)
    os.kill(idle.host.pid, signal.SIGSTOP)
    wait_gone(jvm_pid(idle), 2.0 + 3.0 + END_SECONDS)
    os.kill(idle.host.pid, signal.SIGCONT)
    assert idle.exit.result(5) is ExitReason.LEASE_LOST


@pytest.mark.long
def test_after_a_stop_the_lease_comes_before_waiting_commands(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """1. The host is stopped. 2. Its lease runs out; a start and a lease of that time wait in the pipe.
    3. It continues: nothing is started, and the old lease saves nothing."""
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
        wait_until(lambda: clock.monotonic() > over, 5, "the lease to run out")
        os.kill(supervisor.host.pid, signal.SIGCONT)
        assert supervisor.exit.result(10 + END_SECONDS) is ExitReason.LEASE_LOST
        if not isinstance(starting.exception(REPLY_SECONDS), Unavailable):
            # By which of the two depends on who sees first that the lease is over.
            assert re.search("this host (is ending|has no good lease)", str(starting.result().error))
        assert not (tmp_path / "checkpoints").exists()


def test_a_host_without_memory_ends_and_says_so(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    topic = make_topic(kafka.bootstrap, 1)
    produce(kafka.bootstrap, topic, [{"n": 1, "word": "x" * 1000}], 1)
    sql = "SELECT n, array_join(array_repeat(word, 1000000), '-') AS word FROM events"
    config = job_config(topic, 1, {"type": "files", "path": str(tmp_path / "out")}, query={"sql": sql})
    with running_host("small", settings_for(tmp_path, kafka.bootstrap), tmp_path) as supervisor:
        jvm = jvm_pid(supervisor)
        supervisor.start(task_spec("big", config))
        assert supervisor.exit.result(REPLY_SECONDS) is ExitReason.OUT_OF_MEMORY
        wait_gone(jvm)


@pytest.mark.parametrize(
    "conf",
    [{"spark.driver.extraJavaOptions": "-Xmx1g"}, {"spark.master": "no-such-master"}],
    ids=["a jvm that does not start", "a session that does not start"],
)
def test_a_host_that_cannot_start_says_so(tmp_path: Path, conf: dict[str, str]) -> None:
    supervisor = Supervisor("broken", settings_for(tmp_path, "127.0.0.1:9", spark_conf=conf), tmp_path / "broken.log")
    with pytest.raises(Unavailable, match="not_started"):
        supervisor.host.ready.result(READY_SECONDS)
    assert supervisor.exit.result(REPLY_SECONDS) is ExitReason.NOT_STARTED


def test_kill_is_immediate_and_may_be_repeated(idle: Supervisor) -> None:
    jvm = jvm_pid(idle)
    assert runs(jvm)
    idle.host.kill()
    idle.host.kill()
    wait_gone(jvm)
    assert idle.host.exit_reason is ExitReason.KILLED
