"""Kafka on this machine: one broker that is its own controller (KRaft), for `penstock up`, the demo and tests.

It listens on 127.0.0.1 only. Data survive restarts, and are kept without limit: records may carry event times of long
ago, which Kafka's retention would take for their age. Topics are made on purpose, never by a typing error: their number
of partitions is a job's number of key groups.

How it ends: `stop()` is an orderly shutdown. When the owner is killed, even by `kill -9`, the kernel sends the broker
SIGTERM, the same orderly shutdown. A `start()` that finds a broker whose owner died ends it first; one that finds a
living owner refuses. A broker that was killed itself recovers its log at the next start.
"""

from __future__ import annotations

import base64
import signal
import subprocess
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from penstock.control.errors import TerminalError
from penstock.control.logs import logger
from penstock.control.process import start_child, stop_group, wait_until
from penstock.local.folder import OwnedFolder, end_orphan
from penstock.local.jars import java_home, kafka_classpath
from penstock.local.ports import LOOPBACK, accepts, free_port

_START_TIMEOUT_S = 90.0
_STOP_TIMEOUT_S = 20.0
_JVM = ["-Xmx512m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"]
_YEAR_MINUTES = 365 * 24 * 60

_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "offsets.retention.minutes": str(_YEAR_MINUTES),
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",
    "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
}

log = logger(__name__)


class EmbeddedKafka:
    """One Kafka broker on `data_dir`, which is formatted at the first start and survives.

    `port` is the TCP port for clients, by default a free one that stays the same over restarts of this object. Use as a
    context manager or call `start()` and `stop()`; both may be repeated on one object.
    """

    def __init__(self, data_dir: Path, port: int | None = None) -> None:
        self._data = data_dir.absolute()
        self._port = port if port is not None else free_port()
        self._folder = OwnedFolder(self._data)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients."""
        return f"{LOOPBACK}:{self._port}"

    @property
    def log_path(self) -> Path:
        """The broker's log: warnings and errors."""
        return self._data / "kafka.log"

    def start(self) -> str:
        """Start the broker, wait until it serves metadata, and return `bootstrap`.

        Raises `TerminalError` when another living process owns the folder, the jars or a JDK are missing, or the broker
        ends at once; `TimeoutError` when it does not serve within 90 s.
        """
        if self._process is not None:
            return self.bootstrap
        self._folder.claim()
        with ExitStack() as on_error:
            on_error.callback(self.stop)
            self._start()
            on_error.pop_all()
        return self.bootstrap

    def stop(self) -> None:
        """Shut down in order; no process stays. Safe to repeat."""
        if self._process is not None:
            stop_group(self._process, _STOP_TIMEOUT_S)
            self._process = None
        self._folder.release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _start(self) -> None:
        self._end_stale_broker()
        properties = self._data / "server.properties"
        properties.write_text(_properties(self._data / "log", self._port, free_port()))
        if not (self._data / "log" / "meta.properties").exists():
            _format(properties)
        command = _java("kafka.Kafka", str(properties))
        self._process = start_child(command, log_path=self.log_path, death_signal=signal.SIGTERM)
        self._pid_path.write_text(str(self._process.pid))
        wait_until(self._listens, _START_TIMEOUT_S, "kafka to listen")
        wait_until(self._serves, _START_TIMEOUT_S, "kafka to serve metadata")
        log.info("kafka is ready", bootstrap=self.bootstrap, data=str(self._data), pid=self._process.pid)

    @property
    def _pid_path(self) -> Path:
        return self._data / "kafka.pid"

    def _end_stale_broker(self) -> None:
        """We own the folder, so a broker that still runs on it has lost its owner."""
        if self._pid_path.exists():
            words = ["kafka.Kafka", str(self._data / "server.properties")]
            end_orphan(int(self._pid_path.read_text()), words, signal.SIGTERM, _STOP_TIMEOUT_S)

    def _listens(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise TerminalError(f"kafka ended at once:\n{self.log_path.read_text()[-2000:]}")
        return accepts(self._port)

    def _serves(self) -> bool:
        client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        try:
            return bool(client.list_topics(timeout=2).brokers)
        except KafkaException:
            return False


def _properties(folder: Path, port: int, controller_port: int) -> str:
    own = {
        "log.dirs": str(folder),
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
    }
    return "".join(f"{name}={value}\n" for name, value in (_SETTINGS | own).items())


def _format(properties: Path) -> None:
    """Prepare the log folder with a new random cluster id (Kafka's form of it: URL-safe base 64 of a UUID)."""
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    # One word: an id may begin with a dash.
    command = _java("kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", f"--config={properties}")
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise TerminalError(f"kafka cannot format its folder:\n{(result.stdout + result.stderr)[-2000:]}")


def _java(*words: str) -> list[str]:
    options = [*_JVM, "-Dlog4j2.level=WARN", "-cp", kafka_classpath()]
    return [str(java_home() / "bin" / "java"), *options, *words]
