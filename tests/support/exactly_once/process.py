"""Processes of plain Spark queries: started, stopped, continued and killed as a whole group."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from penstock.control.process import kill_group, signal_group, start_child, wait_until
from penstock.local.jars import compile_java, spark_jars
from tests.support.exactly_once.plan import Plan, QueryPlan, write_plan
from tests.support.spark.session import CHECKPOINTS

_ROOT = Path(__file__).parents[3]
_JAVA = Path(__file__).parent / "java"
_TIMEOUT_SECONDS = 240.0
_STOP_SECONDS = 10.0
_NOT_RUNNING = "TXZ"
_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def compile_proof(classes: Path) -> Path:
    """Compiles the test-side Java (holds and failures) into the folder, and returns it."""
    classes.mkdir(parents=True, exist_ok=True)
    compile_java(sorted(_JAVA.rglob("*.java")), [], classes)
    return classes


def settings(folder: Path, classes: Path, **more: str) -> dict[str, str]:
    """Spark's settings of a small process; scratch files go below `folder`. Underscores in `more` stand for dots."""
    classpath = ":".join([*map(str, spark_jars()), str(classes)])
    return {
        "spark.driver.extraClassPath": classpath,
        "spark.executor.extraClassPath": classpath,
        "spark.driver.memory": "700m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{_JVM} -Djava.io.tmpdir={folder}",
        "spark.local.dir": str(folder / "spark"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
        "spark.sql.streaming.checkpointFileManagerClass": CHECKPOINTS,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


@dataclass
class QueryProcess:
    """A running process of queries."""

    child: subprocess.Popen[bytes]
    log_path: Path

    def pause(self) -> None:
        """SIGSTOP to the whole group; no thread of it runs any more when this returns."""
        self._signal(signal.SIGSTOP)
        wait_until(self._stands_still, _STOP_SECONDS, "all threads to stop")

    def go_on(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL to the whole group; it is gone when this returns."""
        kill_group(self.child)

    def errors(self) -> dict[str, list[str]]:
        """Waits for the end of the process: the errors of each query, in order."""
        output, _ = self.child.communicate(timeout=_TIMEOUT_SECONDS)
        lines = output.decode().splitlines()
        assert lines, f"the process ended without a word: {self.log_path.read_text()[-3000:]}"
        errors: dict[str, list[str]] = json.loads(lines[-1])
        return errors

    def _signal(self, number: signal.Signals) -> None:
        assert signal_group(self.child.pid, number), f"the process is gone: {self.log_path}"

    def _stands_still(self) -> bool:
        family = [psutil.Process(self.child.pid), *psutil.Process(self.child.pid).children(recursive=True)]
        threads = [thread for process in family for thread in Path(f"/proc/{process.pid}/task").glob("*/stat")]
        return all(_state(thread) in _NOT_RUNNING for thread in threads)


def _state(thread: Path) -> str:
    """The letter behind the name in brackets; a thread that ended meanwhile is dead."""
    try:
        return thread.read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


@contextmanager
def running(folder: Path, plan: Plan) -> Iterator[QueryProcess]:
    """The process of the plan; killed at the end if it still runs. Its log is `folder/queries.log`."""
    folder.mkdir(parents=True, exist_ok=True)
    path, log_path = folder / "plan.json", folder / "queries.log"
    write_plan(path, plan)
    command = [sys.executable, "-m", "tests.support.exactly_once.query_process", path]
    child = start_child(command, cwd=_ROOT, stdout=subprocess.PIPE, log_path=log_path)
    try:
        yield QueryProcess(child, log_path)
    finally:
        kill_group(child)
        assert child.stdout is not None
        child.stdout.close()


@dataclass(frozen=True)
class Logs:
    """The offset and commit logs of a query, as files."""

    query: QueryPlan

    @property
    def planned(self) -> int:
        """The newest batch of which the offsets are written; -1 when none is."""
        return self._last("offsets")

    @property
    def committed(self) -> int:
        """The newest committed batch; -1 when none is."""
        return self._last("commits")

    @property
    def in_flight(self) -> bool:
        """Whether a batch is planned and not committed."""
        return self.planned > self.committed

    @property
    def committed_rows(self) -> int:
        """How many rows of the input the committed batches hold; the input has no control records."""
        if self.committed < 0:
            return 0
        text = (Path(self.query.checkpoint) / "offsets" / str(self.committed)).read_text()
        ends: dict[str, int] = json.loads(text.splitlines()[2])[self.query.source]
        return sum(ends.values())

    def _last(self, log: str) -> int:
        folder = Path(self.query.checkpoint) / log
        return max((int(path.name) for path in folder.glob("*") if path.name.isdigit()), default=-1)
