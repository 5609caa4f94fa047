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
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from penstock.control.errors import TerminalError
from penstock.control.process import start_child
from penstock.local.jars import java_home, kafka_classpath, share_dir
from penstock.local.ports import LOOPBACK, accepts, free_port, require_free
from penstock.local.server import EmbeddedServer
from penstock.local.settings import server_environment
from penstock.spark.settings import QUICK_JVM, class_archive_options

_JVM = ["-Xmx512m", "-Xms128m", *QUICK_JVM, "-Djava.awt.headless=true"]
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


class EmbeddedKafka(EmbeddedServer):
    """One Kafka broker on `data_dir`, which is formatted at the first start and survives.

    `bootstrap` is `host:port` for clients. `port` is by default a free one, the same over restarts of this object.
    `settings` are broker settings above those of this module; `jvm_options` are further ones of the broker's JVM.
    """

    name = "kafka"
    pid_file = "kafka.pid"
    shutdown_signal = signal.SIGTERM

    def __init__(
        self,
        data_dir: Path,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] = (),
    ) -> None:
        self._port = port if port is not None else free_port()
        self.bootstrap = f"{LOOPBACK}:{self._port}"
        data = data_dir.absolute()
        self._server_properties = data / "server.properties"
        super().__init__(data, self.bootstrap, data / "kafka.log", ["kafka.Kafka", str(self._server_properties)])
        self._settings = {**_SETTINGS, **(settings or {})}
        self._jvm_options = jvm_options

    def _launch(self) -> subprocess.Popen[bytes]:
        require_free(self.name, self._port)
        self._server_properties.write_text(self._properties(free_port()))
        if not (self._data / "log" / "meta.properties").exists():
            _format(self._server_properties)
        command = kafka_command(*self._jvm_options, "kafka.Kafka", str(self._server_properties))
        # Known before anything else can fail: `start` then stops it.
        self._process = start_child(
            command, env=server_environment(), log_path=self.log_path, death_signal=self.shutdown_signal
        )
        (self._data / self.pid_file).write_text(str(self._process.pid))
        return self._process

    def _answers(self) -> bool:
        if not accepts(self._port):
            return False
        client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        try:
            return bool(client.list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    def _listeners(self) -> str:
        """Those for clients."""
        return f"PLAINTEXT://{self.bootstrap}"

    def _properties(self, controller_port: int) -> str:
        own = {
            "log.dirs": str(self._data / "log"),
            "listeners": f"{self._listeners()},CONTROLLER://{LOOPBACK}:{controller_port}",
            "advertised.listeners": self._listeners(),
            "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        }
        return "".join(f"{name}={value}\n" for name, value in (self._settings | own).items())


def kafka_archive() -> Path:
    """The path of the broker's class archive, made by `penstock.local.class_archive`. It may be missing."""
    return share_dir() / "jars" / "archive" / "kafka.jsa"


def _format(properties: Path) -> None:
    """Prepare the log folder with a new random cluster id (Kafka's form of it: URL-safe base 64 of a UUID)."""
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    # One word: an id may begin with a dash.
    command = kafka_command("kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", f"--config={properties}")
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise TerminalError(f"kafka cannot format its folder:\n{(result.stdout + result.stderr)[-2000:]}")


def kafka_command(*words: str) -> list[str]:
    """The words that run a program of the broker: its class, and what that takes."""
    options = [*_JVM, *class_archive_options(kafka_archive()), "-Dlog4j2.level=WARN", "-cp", kafka_classpath()]
    return [str(java_home() / "bin" / "java"), *options, *words]
