"""A Spark standalone cluster on this machine: a master and one worker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from penstock.control.process import kill_group, start_child, wait_until
from penstock.local.ports import free_port

_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_DEPLOY = "org.apache.spark.deploy"
_START_SECONDS = 90.0


@contextmanager
def standalone(folder: Path, *, cores: int, memory_mb: int) -> Iterator[str]:
    """The master's address; the worker offers `cores` and `memory_mb`. Logs are below `folder`, gone at the end."""
    port = free_port()
    address, log = f"spark://127.0.0.1:{port}", folder / "cluster.log"
    where = ["--host", "127.0.0.1", "--webui-port", "0"]
    size = ["--cores", str(cores), "--memory", f"{memory_mb}m", "--work-dir", str(folder / "work")]
    with ExitStack() as running:
        for words in (["master.Master", *where, "--port", str(port)], ["worker.Worker", *where, *size, address]):
            child = start_child([_SPARK_CLASS, f"{_DEPLOY}.{words[0]}", *words[1:]], log_path=log)
            running.callback(kill_group, child)
        wait_until(lambda: re.search("Successfully registered with master", log.read_text()), _START_SECONDS, "worker")
        yield address
