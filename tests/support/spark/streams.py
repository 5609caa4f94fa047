"""Jobs that read a stream of files or of a Delta table, run in this process without Kafka, and what they wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from penstock.config.model import JobConfig, PostgresOutput
from penstock.spark.checkpoint import last_commit, planned_batch
from penstock.spark.files import local_path
from penstock.spark.redistribute.engine import redistribute
from penstock.spark.redistribute.offsets import source_of
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.savepoint.take import take
from penstock.spark.sections import stream_part
from penstock.spark.task import RunningTask, Runtime
from penstock.tasks.redistribution import Layout, RedistributionReport, RedistributionRequest, SavepointName
from penstock.tasks.savepoint import SavepointRequest
from penstock.tasks.spec import key_group_ranges
from tests.support.spark.session import unique

NO_KAFKA = "127.0.0.1:1"
_RUN_SECONDS = 300.0


@dataclass
class StreamJob:
    """A job with one generation of checkpoints at a time, and no task that runs longer than a step of its test."""

    runtime: Runtime
    config: JobConfig
    name: str = field(default_factory=lambda: unique("job"))
    generation: int = 1

    @property
    def layout(self) -> Layout:
        return Layout(generation=self.generation, config=self.config, ranges=key_group_ranges(self.config))

    @property
    def checkpoint(self) -> Path:
        return local_path(self.runtime.checkpoint(self.name, self.generation, 0))

    def run(self, until_batch: int) -> None:
        """Runs the task until this batch is committed."""
        task = RunningTask(self.runtime, task_specs(self.name, self.layout)[0], epoch=1)
        task.claim()
        checkpoint = str(self.checkpoint)
        task.run_until(lambda: until_batch <= _committed(checkpoint), _RUN_SECONDS)

    def read_to(self, section: int, *indices: int) -> None:
        """Runs tasks, all without indices, one after the other, each until it has read the sections before this one and
        no other."""
        specs = task_specs(self.name, self.layout)
        for spec in [specs[index] for index in indices] if indices else specs:
            task = RunningTask(self.runtime, spec, epoch=1)
            task.claim()
            part = stream_part(self.runtime.files, self.runtime.settings.checkpoint_root, spec, task.checkpoint)
            assert part is not None
            ends = dict.fromkeys(spec.key_groups.members(), section)
            stop_at = {part.log(name).name: ends for name in self.config.streams}
            task.run_until(lambda: self.positions(spec.index) == {section}, _RUN_SECONDS, stop_at)  # noqa: B023

    def begin(self, index: int) -> None:
        """Runs a task until it has found where its stream begins, which has no new row."""
        task = RunningTask(self.runtime, task_specs(self.name, self.layout)[index], epoch=1)
        task.claim()
        begin = local_path(self.runtime.settings.checkpoint_root) / self.name / "streams/g1/events/0"
        task.run_until(begin.exists, _RUN_SECONDS)

    def positions(self, index: int) -> set[int]:
        """The sections at which the key groups of a task stand, of all streams."""
        checkpoint = self.runtime.checkpoint(self.name, self.generation, index)
        batch = last_commit(checkpoint)
        lines = [] if batch is None else planned_batch(checkpoint, batch).sources
        read = [source_of(line).topics for line in lines if line is not None]
        return {section for topics in read for groups in topics.values() for section in groups.values()}

    def save(self, name: str) -> None:
        take(self.runtime, SavepointRequest(job=self.name, name=name, number=1, layout=self.layout, earlier=()))

    def restore(self, name: str, **changes: Any) -> RedistributionReport:
        """The next generation begins with a savepoint of this job."""
        saved = self.layout.model_copy(update={"savepoint": SavepointName(job=self.name, name=name)})
        return self._move(saved, changes, seals=self.layout)

    def adopt(self, other: StreamJob, name: str) -> RedistributionReport:
        """This job, which has not run, begins with a savepoint of another one."""
        saved = SavepointName(job=other.name, name=name)
        return self._move(other.layout.model_copy(update={"savepoint": saved}), {})

    def rescale(self, **changes: Any) -> RedistributionReport:
        """The next generation takes over."""
        return self._move(self.layout, changes)

    def _move(self, source: Layout, changes: Mapping[str, Any], seals: Layout | None = None) -> RedistributionReport:
        self.config, self.generation = self.config.model_copy(update=changes), self.generation + 1
        request = RedistributionRequest(job=self.name, source=source, target=self.layout, seals=seals)
        return redistribute(self.runtime, request)

    def rows(self) -> list[tuple[Any, ...]]:
        """What its table has, of Delta or Postgres, sorted."""
        output = self.config.output
        if isinstance(output, PostgresOutput):
            with psycopg.connect(self.runtime.settings.connections[output.connection]) as connection:
                return sorted(connection.execute(f'SELECT * FROM "{output.table}"').fetchall())
        path = output.path  # type: ignore[union-attr]
        return sorted(map(tuple, self.runtime.spark.read.format("delta").load(path).collect()))


def _committed(checkpoint: str) -> int:
    batch = last_commit(checkpoint)
    return -1 if batch is None else batch


def stream_config(stream: Mapping[str, Any], sql: str, output: Mapping[str, Any], **more: Any) -> JobConfig:
    """A job over the stream `events`, a file a batch."""
    made = {"streams": {"events": {"max_files_per_batch": 1, **stream}}, "query": {"sql": sql}, **more}
    return JobConfig.model_validate({**made, "output": {"type": "delta", **output}, "trigger_interval_seconds": 0})


def add_file(folder: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """A file of JSON, put into the folder whole."""
    folder.mkdir(exist_ok=True)
    name = f"{len(list(folder.iterdir()))}.json"
    made = folder.parent / f".{name}"
    made.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    made.rename(folder / name)
