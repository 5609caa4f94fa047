"""A cell with an Auto Scaler that leads, on a real Postgres, and what its tasks measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.wire.jobs import Written
from services.auto_scaler.decide.policy import Policy
from services.auto_scaler.loop import AutoScaler
from services.auto_scaler.store.decisions import AUTO_SCALER
from services.auto_scaler.store.port import ScalingStore
from tests.support.state_syncer.cell import Cell, elect
from tests.support.store.jobs import make_layer, write_layer

NOW = datetime.now(UTC).replace(second=30, microsecond=0) + timedelta(hours=1)


@dataclass
class FakeWriter:
    """Stands for `JobClient`: remembers what was asked of it, and answers as the test says."""

    error: Exception | None = None
    asked: list[tuple[str, Mapping[str, Any], int, str]] = field(default_factory=list)
    moved: list[tuple[str, int, str]] = field(default_factory=list)

    def patch_layer(self, job: str, layer: str, patch: Mapping[str, Any], *, if_match: int, **given: Any) -> Written:
        assert (layer, given["expires_in_seconds"]) == ("scaler", None)
        assert given["reason"].startswith("decision ")
        self.asked.append((job, patch, if_match, given["idempotency_key"]))
        if self.error is not None:
            raise self.error
        return Written(job=job, action="patch", revision=77)

    def move_task(self, job: str, index: int, *, container: str, **given: Any) -> None:
        self.moved.append((job, index, container))
        if self.error is not None:
            raise self.error


class ScaledCell(Cell):
    """A cell with a scaler that leads, too."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.now = NOW
        self.writer = FakeWriter()
        self.policy = Policy(history_every_minutes=0)
        self.scaler_epoch = elect(self.engine, "test", loop=AUTO_SCALER)
        self.container("a", memory_bytes=8 * 2**30)

    def scale(self, writer: Any = None) -> None:
        """A round of the scaler."""
        store = ScalingStore(self.engine)
        AutoScaler(store, writer or self.writer, lambda: self.now, self.policy).round(self.scaler_epoch)

    def run_job(self, **overrides: Any) -> None:
        write_layer(self.engine, "j", make_layer(**overrides))
        self.round()

    def measure(self, index: int, *, minutes_ago: int = 1, backlog: int | None = 0, **values: Any) -> None:
        """A sample of a task that processes 100 rows a second."""
        known = {
            "processed_rows_per_second": 100.0,
            "input_rows_per_second": None,
            "lag_seconds": None,
            "out_of_memory": False,
        } | values
        self.do(
            """
            INSERT INTO task_metrics (job, index, minute, processed_rows_per_second, input_rows_per_second,
                backlog_records, lag_seconds, out_of_memory)
            VALUES ('j', :index, :minute, :processed_rows_per_second, :input_rows_per_second, :backlog, :lag_seconds,
                :out_of_memory)
            """,
            index=index,
            minute=self.now.replace(second=0) - timedelta(minutes=minutes_ago),
            backlog=backlog,
            **known,
        )

    def profile(self, *, batches: int, low_rows_per_second: float, **changed: Any) -> None:
        """A profile of the job, of what it runs but for what is `changed`."""
        report = {"batches": batches, "low_rows_per_second": low_rows_per_second, "rows": 1, "seconds": 1.0}
        self.do(
            """
            INSERT INTO profiles (job, state, seconds, revision, config, report, author)
            SELECT 'j', 'done', 60, 1, config || CAST(:changed AS jsonb), CAST(:report AS jsonb), 'ann'
            FROM running WHERE job = 'j'
            """,
            changed=json.dumps(changed),
            report=json.dumps(report),
        )

    def report_traffic(
        self, index: int, rates: Sequence[float], *, first: int = 0, seconds: float = 600.0, container: str = "a"
    ) -> None:
        """A task has measured the key groups from `first` on."""
        told = {"first": first, "records_per_second": rates, "seconds": seconds}
        self.do(
            """
            INSERT INTO tasks (job, index, container, state, revision, generation, restarts, epoch, progress,
                reported_at)
            VALUES ('j', :index, :container, 'running', 1, 1, 0, 1, CAST(:progress AS jsonb), :at)
            ON CONFLICT (job, index, container) DO UPDATE SET progress = excluded.progress,
                reported_at = excluded.reported_at
            """,
            index=index,
            container=container,
            progress=json.dumps({"key_group_rates": told}),
            at=self.now,
        )

    def run_tasks(self, count: int, **measured: Any) -> None:
        """Ten minutes later so many tasks run since five minutes, all alike, and the scaler has a round."""
        self.now += timedelta(minutes=10)
        self.do(
            "UPDATE running SET config = jsonb_set(config, '{task_count}', to_jsonb(CAST(:count AS integer))),"
            " committed_at = :at",
            count=count,
            at=self.now - timedelta(minutes=5),
        )
        for index in range(count):
            self.measure(index, **measured)
        self.scale()

    def alerts(self) -> list[tuple[str, str, int]]:
        """Kind, subject and number of times of each open alert."""
        rows = self.rows("SELECT kind, subject, times FROM alerts WHERE cleared_at IS NULL ORDER BY kind, subject")
        return [(row["kind"], row["subject"], row["times"]) for row in rows]

    def decisions(self) -> list[tuple[str, str, str]]:
        """Symptom, action and outcome of each, oldest first."""
        return [(row["symptom"], row["action"], row["outcome"]) for row in self.decided()]

    def decided(self) -> list[Any]:
        """The rows of the decisions, oldest first."""
        return self.rows("SELECT * FROM decisions WHERE job = 'j' ORDER BY id")
