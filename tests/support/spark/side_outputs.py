"""A job with state and an output of each kind, and what is in each place."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from penstock.config.model import JobConfig
from penstock.spark.task import Runtime
from tests.support.kafka.sink import committed
from tests.support.spark import batch_functions
from tests.support.spark.hosts import make_topic
from tests.support.spark.redistribution import Events, Job, job_config
from tests.support.spark.session import unique

SUMS = "SELECT k, window.end AS until, count(*) AS c FROM events GROUP BY window(at, '20 seconds'), k"
Rows = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Places:
    """Where the outputs of a job go: `main`, and `few`, `late` and `part` beside it."""

    runtime: Runtime
    url: str
    folder: Path
    main: str
    part: str
    table: str

    @classmethod
    def make(cls, runtime: Runtime, url: str, folder: Path) -> Places:
        bootstrap = runtime.settings.kafka_bootstrap
        return cls(
            runtime, url, folder, make_topic(bootstrap, 1), make_topic(bootstrap, 1), unique("t").replace("-", "_")
        )

    def outputs(self) -> dict[str, Any]:
        """`output` and `side_outputs`: `few` gets some rows, `late` other columns; between them a function may fail."""
        function = f"{batch_functions.__name__}:ends_once"
        sides = {
            "few": {"where": "c > 1", "output": {"type": "delta", "path": str(self.folder / "few")}},
            "function": {"output": {"type": "foreach_batch", "python": function}},
            "late": {"columns": ["k", "c * 2 AS doubled"], "output": {"type": "postgres", "table": self.table}},
            "part": {"where": "k < 'k3'", "columns": ["k", "c"], "output": {"type": "kafka", "topic": self.part}},
        }
        return {"output": {"type": "kafka", "topic": self.main}, "side_outputs": sides}

    def found(self) -> dict[str, Rows]:
        """The rows of each place."""
        few = self.runtime.spark.read.format("delta").load(str(self.folder / "few")).select("k", "c").collect()
        return {
            "main": self.topic(self.main),
            "few": Counter(tuple(row) for row in few),
            "late": Counter(self._ask()),
            "part": self.topic(self.part),
        }

    def topic(self, topic: str) -> Rows:
        """The columns `k` and `c` of a topic."""
        messages = committed(self.runtime.settings.kafka_bootstrap, topic)
        return Counter((row["k"], row["c"]) for row in (json.loads(message.value() or b"") for message in messages))

    def _ask(self) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url) as connection:
            return connection.execute(f"SELECT k, doubled FROM {self.table}".encode()).fetchall()


def expected(windows: Iterable[tuple[str, int]]) -> dict[str, Rows]:
    """What the places have of these results."""
    rows = list(windows)
    return {
        "main": Counter(rows),
        "few": Counter(row for row in rows if row[1] > 1),
        "late": Counter((key, count * 2) for key, count in rows),
        "part": Counter(row for row in rows if row[0] < "k3"),
    }


def windows_of(
    rows: Iterable[tuple[str, int, float]], closed: Callable[[float], bool] = lambda until: True
) -> list[tuple[str, int]]:
    """The results of `SUMS`, by hand."""
    counts = Counter((key, at // 20) for key, _, at in rows)
    return [(key, count) for (key, window), count in counts.items() if closed((window + 1) * 20)]


def make_job(places: Places, events: Events, sides: Mapping[str, Any] | None = None, **more: Any) -> Job:
    """The job with all its side outputs, or with these."""
    fields = places.outputs()
    if sides is not None:
        fields["side_outputs"] = dict(sides)
    config: JobConfig = job_config(
        {"events": events.topic}, "spark", fields.pop("output"), query={"sql": SUMS}, **fields, **more
    )
    return Job(places.runtime, config)
