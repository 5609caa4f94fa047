"""A job with state and an output of each kind, and what is in each place."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from penstock.config.model import JobConfig
from penstock.spark.packages import pack
from penstock.spark.sinks.files import read_all
from penstock.spark.task import Runtime
from tests.support.kafka.sink import committed
from tests.support.spark import batch_functions
from tests.support.spark.hosts import make_topic
from tests.support.spark.redistribution import Events, Job, job_config
from tests.support.spark.session import unique

_ENDS_HOSTS = """
import os, signal
from pathlib import Path

def ends(frame, batch_id, series, args):
    folder = Path(args["folder"])
    mark = folder / f"ended-{series.replace('/', '-')}-{batch_id}"
    if not mark.exists() and len(list(folder.glob("ended-*"))) < args["kills"]:
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
"""
FUNCTION = f"{batch_functions.__name__}:ends_once"
SUMS = "SELECT k, window.end AS until, count(*) AS c FROM events GROUP BY window(at, '20 seconds'), k"
Rows = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Places:
    """Where the outputs of a job go: `main`, and `few`, `late` and `part` beside it. `main` is a topic, or a folder if
    `has_files`."""

    runtime: Runtime
    url: str
    folder: Path
    main: str
    part: str
    table: str
    has_files: bool = False

    @classmethod
    def make(cls, runtime: Runtime, url: str, folder: Path, *, has_files: bool = False) -> Places:
        bootstrap = runtime.settings.kafka_bootstrap
        main = str(folder / "main") if has_files else make_topic(bootstrap, 1)
        return cls(
            runtime, url, folder, main, make_topic(bootstrap, 1), unique("t").replace("-", "_"), has_files=has_files
        )

    def outputs(self, function: str = FUNCTION) -> dict[str, Any]:
        """`output` and `side_outputs`: `few` gets some rows, `late` other columns; between them a function may fail."""
        sides = {
            "few": {"where": "c > 1", "output": {"type": "delta", "path": str(self.folder / "few")}},
            "function": {"output": {"type": "foreach_batch", "python": function}},
            "late": {"columns": ["k", "c * 2 AS doubled"], "output": {"type": "postgres", "table": self.table}},
            "part": {"where": "k < 'k3'", "columns": ["k", "c"], "output": {"type": "kafka", "topic": self.part}},
        }
        main = {"type": "files", "path": self.main} if self.has_files else {"type": "kafka", "topic": self.main}
        return {"output": main, "side_outputs": sides}

    def found(self) -> dict[str, Rows]:
        """The rows of each place."""
        main = self.files() if self.has_files else self.topic(self.main)
        return {"main": main, "few": self.few(), "late": self.late(), "part": self.topic(self.part)}

    def files(self) -> Rows:
        """The columns `k` and `c` of the folder, as a reader has them that goes by Spark's logs."""
        return Counter(map(tuple, read_all(self.runtime.spark, self.main).select("k", "c").collect()))

    def few(self) -> Rows:
        """The columns `k` and `c` of the Delta table."""
        rows = self.runtime.spark.read.format("delta").load(str(self.folder / "few")).select("k", "c").collect()
        return Counter(tuple(row) for row in rows)

    def late(self) -> Rows:
        """The rows of the Postgres table."""
        with psycopg.connect(self.url) as connection:
            return Counter(connection.execute(f"SELECT k, doubled FROM {self.table}".encode()).fetchall())

    def topic(self, topic: str) -> Rows:
        """The columns `k` and `c` of a topic."""
        messages = committed(self.runtime.settings.kafka_bootstrap, topic)
        return Counter((row["k"], row["c"]) for row in (json.loads(message.value() or b"") for message in messages))


def expected(windows: Iterable[tuple[str, int]]) -> dict[str, Rows]:
    """What the places have of these results."""
    rows = list(windows)
    return {
        "main": Counter(rows),
        "few": Counter(row for row in rows if row[1] > 1),
        "late": Counter((key, count * 2) for key, count in rows),
        "part": Counter(row for row in rows if row[0] < "k3"),
    }


def windows_of(rows: Iterable[tuple[str, int, float]]) -> list[tuple[str, int]]:
    """The results of `SUMS`, by hand."""
    counts = Counter((key, at // 20) for key, _, at in rows)
    return [(key, count) for (key, _), count in counts.items()]


def pack_ends_of_hosts(folder: Path, kills: int) -> dict[str, Any]:
    """A function that kills its host so often, each time for another batch: the fields of a job that has it."""
    name = f"ends_{kills}"  # a process loads a module once
    source = folder / name
    source.mkdir()
    (source / f"{name}.py").write_text(_ENDS_HOSTS)
    pack(source, "ends", "1", folder / "packages")
    args = {"folder": str(folder), "kills": kills}
    return {"function": f"{name}:ends", "package": {"name": "ends", "version": "1"}, "args": args}


def make_job(places: Places, events: Events, names: Collection[str] | None = None, **more: Any) -> Job:
    """The job with all its side outputs, or with these."""
    fields = places.outputs(more.pop("function", FUNCTION))
    if names is not None:
        fields["side_outputs"] = {name: fields["side_outputs"][name] for name in names}
    config: JobConfig = job_config(
        {"events": events.topic}, "spark", fields.pop("output"), query={"sql": SUMS}, **fields, **more
    )
    return Job(places.runtime, config)
