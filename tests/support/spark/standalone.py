"""A Spark standalone cluster on this machine: a master and its workers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from penstock.control.process import kill_group, start_child, wait_until
from penstock.local.ports import free_port
from tests.support.spark.hosts import QUICK_JVM

_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_DEPLOY = "org.apache.spark.deploy"
_START_SECONDS = 90.0


@contextmanager
def standalone(folder: Path, *, cores: int, memory_mb: int, workers: int = 1) -> Iterator[str]:
    """The master's address; each worker offers `cores` and `memory_mb`. Logs and executors are below `folder`.

    Each worker has a loopback address of its own, for Spark never runs two attempts of a task on one host.
    """
    port = free_port()
    address, log = f"spark://127.0.0.1:{port}", folder / "cluster.log"
    size = ["--cores", str(cores), "--memory", f"{memory_mb}m", "--work-dir", str(folder / "work")]
    commands = [["master.Master", *_at("127.0.0.1"), "--port", str(port)]]
    commands += [["worker.Worker", *_at(f"127.0.0.{number + 1}"), *size, address] for number in range(workers)]
    with ExitStack() as running:
        for words in commands:
            environment = {**os.environ, "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM}
            child = start_child([_SPARK_CLASS, f"{_DEPLOY}.{words[0]}", *words[1:]], env=environment, log_path=log)
            running.callback(kill_group, child)
        wait_until(lambda: _registered(log) == workers, _START_SECONDS, f"{workers} workers")
        yield address


def _at(host: str) -> list[str]:
    return ["--host", host, "--webui-port", "0"]


def _registered(log: Path) -> int:
    return len(re.findall("Successfully registered with master", log.read_text()))
