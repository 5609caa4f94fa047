"""Settings of a Spark host, and the only place of `penstock.spark` that reads or writes the environment."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from penstock.control.errors import BrokenTask, Unavailable
from penstock.kafka.access import Kafka
from penstock.kafka.settings import KNOWN_CLUSTER, KafkaSettings
from penstock.spark.interpreter import ISOLATED, SETS_MODULES
from penstock.spark.stores import logins_in
from penstock.tasks.heap import SMALLEST_HEAP_BYTES

QUICK_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options of a JVM that lives for seconds, or does little: halves its CPU."""
_PREFIX = "PENSTOCK_"
INHERITED = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH"),
        *("JAVA_HOME", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR", "KRB5_CONFIG"),
        *("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    }
)
"""The variables that a host has from its container, besides those that begin with `INHERITED_PREFIXES`."""
INHERITED_PREFIXES = ("LC_", "PYTHON")
_FOR_CODE = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")
_OF_THE_CONTAINER = {"connections", "secrets_root", "host_environment", "host_user"}


class SparkSettings(KafkaSettings, BaseSettings):
    """The settings of a host that the container decides. They travel in the environment, which jobs' code can read: so
    `connections` and secrets do not. Each command brings those of its own job (`for_job`)."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, extra="ignore", frozen=True, hide_input_in_errors=True)

    checkpoint_root: str = Field(description="Hadoop path below which all checkpoints are")
    kafka_bootstrap: str = Field("127.0.0.1:9092", description="brokers of the bus")
    connections: dict[str, str] = Field(
        default_factory=dict, repr=False, description="libpq URLs by name of connection; a host has its command's only"
    )
    secrets_root: Path | None = Field(None, description="folder with a file for each secret, by its name")
    path_roots: tuple[str, ...] = Field(
        (), description="Hadoop paths; tables and outputs of jobs must be below one of them"
    )
    packages_root: Path = Field(Path("packages"), description="folder of the packages of jobs")
    jars: Path = Field(Path(sys.prefix) / "share" / "penstock" / "jars", description="folder of spark/ and penstock/")

    spark_master: str = Field("local[*]", description="local[n], spark://host:port, yarn or k8s://...")
    spark_conf: dict[str, str] = Field(default_factory=dict, description="further Spark settings of the whole host")
    spark_driver_host: str = Field("127.0.0.1", description="address at which executors reach the host")
    worker_python: str | None = Field(None, description="Python of executors; the host's own if absent")
    spark_local_dir: Path | None = Field(
        None, description="temporary files of Spark and its JVM; the system's folder if absent"
    )
    heap_bytes: int = Field(1024 * 2**20, ge=SMALLEST_HEAP_BYTES, description="largest heap of the host's JVM")
    collector: Literal["serial", "g1"] = Field("serial", description="garbage collector; g1 for heaps of several GiB")

    max_concurrent_starts: int = Field(
        8, ge=1, description="commands of different tasks that run at once; as many host tasks run beside them"
    )
    progress_interval_seconds: float = Field(1.0, gt=0, description="time between two polls of all queries")
    load_interval_seconds: float = Field(10.0, gt=0, description="time between two measurements of what tasks use")
    disk_interval_seconds: float = Field(60.0, gt=0, description="time between two measurements of a checkpoint's size")
    inputs_interval_seconds: float = Field(60.0, gt=0, description="time between two checks of inputs' partitions")
    late_alert_rows: int = Field(
        1, ge=1, description="late rows that a task drops in five minutes before an alert is raised"
    )
    boundary_wait_seconds: float = Field(5.0, ge=0, description="how long a stop waits for the end of a batch")
    settle_timeout_seconds: float = Field(
        120.0,
        gt=0,
        description="how long finishing a pending batch may take",
    )
    level_timeout_seconds: float = Field(
        30.0, gt=0, description="how long stopped tasks may read on to a common watermark"
    )
    lease_grace_seconds: float = Field(10.0, gt=0, le=10.0, description="time to stop tasks after the lease has ended")
    unlocked_checkpoints: bool = Field(
        False, description="allow checkpoint roots without file locks, where the fence is checked but not atomic"
    )
    host_environment: tuple[str, ...] = Field((), description="further variables that hosts get of the container's")
    host_user: str | None = Field(None, description="account that hosts run as; only root may choose")
    log_format: Literal["json", "console"] = Field("console", description="of the log of a host, as of its container's")
    log_level: str = Field("INFO", description="the least level that a host logs")
    container_folder: Path | None = Field(None, description="set by the Task Manager: marks the processes of its hosts")
    package_environment: Path | None = Field(
        None, description="set by the Task Manager: the Python of a host's package"
    )
    _secrets: dict[str, str] = PrivateAttr(default_factory=dict)

    @field_validator("spark_conf")
    @classmethod
    def _no_login_of_a_store(cls, spark_conf: dict[str, str]) -> dict[str, str]:
        """The code of every job reads Spark's and Hadoop's configuration."""
        if found := logins_in(spark_conf):
            raise ValueError(
                f"{', '.join(found)}: code of jobs can read logins of stores there. Give the machine a role, or name "
                "the variables of the login in PENSTOCK_HOST_ENVIRONMENT"
            )
        return spark_conf

    @property
    def kafka(self) -> Kafka:
        """How the cell's own Kafka is reached. Raises Unavailable when a file of its settings cannot be read."""
        return self.kafka_of(self.kafka_bootstrap)

    def cluster(self, name: str | None) -> Kafka:
        """How a Kafka cluster is reached; None: the cell's own. Raises BrokenTask when the container does not know it,
        Unavailable when a file of its settings cannot be read."""
        if name is None:
            return self.kafka
        if name not in self.cluster_names:
            raise BrokenTask(self.unknown_cluster(name), rule=KNOWN_CLUSTER)
        return self.further_cluster(name)

    def kafkas(self) -> Iterator[Kafka]:
        """All clusters that jobs may use, but for those whose files cannot be read."""
        yield self.kafka
        for name in self.cluster_names:
            with suppress(Unavailable):
                yield self.further_cluster(name)

    @model_validator(mode="after")
    def _each_cluster_once(self) -> Self:
        self.require_own_brokers(self.kafka_bootstrap)
        return self

    @property
    def secrets(self) -> Mapping[str, str]:
        """The values of the secrets, by name, that the command's job may use; none before `for_job`."""
        return self._secrets

    @property
    def store_paths(self) -> tuple[str, ...]:
        """The Hadoop paths that decide which file systems a host can reach."""
        return (self.checkpoint_root, *self.path_roots)

    def for_job(self, connections: Mapping[str, str], secrets: Mapping[str, str]) -> Self:
        """These settings with the connections and secrets of one job."""
        mine = self.model_copy(update={"connections": dict(connections)})
        mine._secrets = dict(secrets)
        return mine

    def to_environment(self) -> dict[str, str]:
        """The environment of a host: these settings, and of this process's variables only those that a host may have.

        Nothing else is passed on: jobs' code can read all of it. A host with an environment gets no variable that makes
        its Python find other modules.
        """
        values = self.model_dump(mode="json", exclude=_OF_THE_CONTAINER)
        own = {f"{_PREFIX}{name}".upper(): _as_text(value) for name, value in values.items()}
        allowed = INHERITED | set(self.host_environment)
        passed = {name: value for name, value in os.environ.items() if _may_pass(name, allowed)}
        if self.package_environment is not None:
            passed = {name: value for name, value in passed.items() if name not in SETS_MODULES} | ISOLATED
        return {**passed, **{name: value for name, value in own.items() if value is not None}}


def variables_for_code() -> dict[str, str]:
    """Those of a user's variables that code of libraries needs; no login is among them."""
    return {name: os.environ[name] for name in _FOR_CODE if name in os.environ}


def _may_pass(name: str, allowed: Set[str]) -> bool:
    return name in allowed or name.startswith(INHERITED_PREFIXES)


def driver_classpath(jars: Path) -> str:
    """The beginning of the class path of a host's JVM. The class archive fits only this order."""
    return f"{jars}/spark/*:{jars}/penstock/*"


def class_archive(jars: Path) -> Path:
    """The path of the class archive that `penstock.local.class_archive` makes beside the jars. It may be missing."""
    return jars / "archive" / "host.jsa"


def class_archive_options(archive: Path) -> list[str]:
    """JVM options that use a class archive, if the file exists: a JVM then starts with half the CPU.

    The JVM checks that the archive fits its class path and version, and ignores it otherwise. Mode 0 maps the archive
    at its own address, which saves a host 0.5 s of relocation, and JVMs share its pages.
    """
    if not archive.exists():
        return []
    place = ["-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0"]
    return ["-Xshare:auto", f"-XX:SharedArchiveFile={archive}", *place]


def jvm_environment(pyspark_home: Path, connection_file: Path, address: str) -> dict[str, str]:
    """The environment in which `spark-submit` starts a gateway that writes where it listens to `connection_file`.

    `address` is what Spark binds to.
    """
    own = {
        "SPARK_HOME": str(pyspark_home),
        "SPARK_LOCAL_IP": address,
        "SPARK_CONNECT_MODE": "0",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection_file),
        # Of the JVM that only composes the command line of the real one: halves its CPU.
        "SPARK_LAUNCHER_OPTS": " ".join(QUICK_JVM),
    }
    return {**os.environ, **own}


@contextmanager
def gateway_in_environment(port: int, secret: str) -> Iterator[None]:
    """pyspark finds a running JVM only by these two variables."""
    variables: Mapping[str, str] = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]


def _as_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)
