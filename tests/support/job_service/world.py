"""A cell with a job and two containers, for causes that are injected into a real store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from penstock.model.reports import TaskProgress, TaskReport, TaskReportBatch, TaskState
from penstock.store.engine import transaction
from penstock.tasks.ownership import Member
from penstock.wire.job_client import JobClient
from services.shard_manager.store.members import register
from services.task_service.store.reports import save_report
from tests.support.job_service.service import CONFIG, RunningJobService
from tests.support.state_syncer.cell import Cell

BEHIND: dict[str, Any] = {
    "batch_id": 9,
    "backlog_records": 100_000,
    "processed_rows_per_second": 100.0,
    "input_rows_per_second": 120.0,
    "busy_share": 0.97,
}
WELL: dict[str, Any] = BEHIND | {"backlog_records": 10, "input_rows_per_second": 90.0, "busy_share": 0.5}


@dataclass
class World:
    """A cell whose job `etl` is committed, and containers `c1` and `c2`."""

    client: JobClient
    service: RunningJobService
    syncer: Cell

    def begin(self, task_count: int = 1, **config: Any) -> None:
        """The job, and two containers."""
        self.put("etl", task_count=task_count, **config)
        with transaction(self.service.engine) as connection:
            for name in ("c1", "c2"):
                register(connection, Member(name, "1", f"http://{name}", "local", 1.0, 1, 1), empty=True)
        self.report("c1")
        self.report("c2")

    def put(self, job: str, **config: Any) -> None:
        """Writes a job and commits it. An output topic of its own."""
        output = {"type": "kafka", "topic": f"{job}-out"}
        self.client.put_job(job, {**CONFIG, "output": output, **config}, verify=False)
        self.syncer.round()

    def patch(self, layer: str, change: dict[str, Any], reason: str = "") -> None:
        """A write to a layer of the job, and its commit: in the second round where a host checks a query first."""
        versions = {each.layer: each.version for each in self.client.get_job("etl").layers}
        self.client.patch_layer("etl", layer, change, if_match=versions.get(layer, 0), reason=reason, verify=False)
        self.syncer.rounds(2)

    def report(self, container: str, *tasks: TaskReport) -> None:
        """All tasks of a container."""
        batch = TaskReportBatch(container=container, incarnation="1", commit_number=9, version=1, tasks=tasks)
        with transaction(self.service.engine) as connection:
            save_report(connection, batch)

    def task(self, index: int = 0, job: str = "etl", **facts: Any) -> TaskReport:
        """A task at what its job runs, which does well."""
        running = self.syncer.running(job)
        row = {"job": job, "index": index, "state": TaskState.RUNNING, "restarts": 0, "epoch": 1}
        row |= {"revision": running["revision"], "generation": running["generation"]}
        return TaskReport(**(row | {"progress": TaskProgress(**WELL)} | facts))

    def behind(self, index: int = 0, **progress: Any) -> TaskReport:
        return self.task(index, progress=TaskProgress(**(BEHIND | progress)))

    def crashed(self, error: str, index: int = 0, job: str = "etl", **facts: Any) -> TaskReport:
        return self.task(index, job, state=TaskState.CRASHED, crashes=3, error=error, progress=None, **facts)

    def do(self, sql: str) -> None:
        with transaction(self.service.engine) as connection:
            connection.execute(text(sql))
