"""A cell whose one container runs what it is served, as the package allows, and a Job Service that takes rollbacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import orjson

from penstock.control.errors import Unavailable
from penstock.model.reports import TaskProgress, TaskReport, TaskState
from penstock.store.engine import transaction
from penstock.tasks.spec import TaskSpec, expand
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import BatchResult, BatchWrite
from services.state_syncer.rollback.reconciler import RollbackReconciler
from services.state_syncer.rollback.store import RollbackStore
from services.task_service.store.port import TemplateStore
from services.task_service.store.reports import save_proven
from services.task_service.templates import template_of
from tests.support.state_syncer.cell import Cell
from tests.support.store.jobs import make_layer

ROUND_SECONDS = 5
WORKED = {"batch_id": 1, "input_rows": 5}


class Away:
    """A Job Service that does not answer so many `times`, and `then` is another one."""

    def __init__(self, times: int = 1_000_000, then: JobClient | None = None) -> None:
        self.times = times
        self._then = then

    def batch(self, writes: Sequence[BatchWrite]) -> Sequence[BatchResult]:
        if self.times == 0 and self._then is not None:
            return self._then.batch(writes)
        self.times -= 1
        raise Unavailable("the job service does not answer")


class Racing:
    """Before the first write of the State Syncer somebody else writes the layer, and takes the package out again."""

    def __init__(self, cell: RolloutCell) -> None:
        self._cell = cell
        self._is_done = False

    def batch(self, writes: Sequence[BatchWrite]) -> Sequence[BatchResult]:
        if not self._is_done:
            self._is_done = True
            self._cell.client.put_layer("j", "rollback", {"query": {"sql": "SELECT 1"}}, if_match=0)
        return self._cell.writer.batch(writes)


@dataclass(kw_only=True)
class RolloutCell(Cell):
    """A cell of one container, `a`, that owns all shards; the packages 0 are good.

    `client` is an operator's; with `writer` the State Syncer writes rollbacks. `bad`: versions whose tasks crash.
    `silent`: indices of tasks that are not reported. While the Task Service `is_away` nothing is reported, and the
    container runs on with what it has.
    """

    client: JobClient
    writer: JobClient

    def __post_init__(self) -> None:
        self.names = ("a",)
        self.bad: set[str] = set()
        self.silent: set[int] = set()
        self.is_away = False
        self._packages: list[list[str]] = [[]]
        super().__post_init__()
        self.do("INSERT INTO assignment (shard, container, epoch) SELECT n, 'a', 1 FROM generate_series(0, 1023) AS n")

    def restart(self, store: Any = None, writer: Any = None) -> None:
        """Another syncer process, rollbacks included."""
        super().restart(store)
        self.keeper = RollbackReconciler(
            RollbackStore(self.engine), writer or self.writer, lambda: self.now.timestamp()
        )

    def release(self, version: str, *, job: str = "j", **overrides: Any) -> int:
        """The base layer with a version of the package."""
        package = {"name": "flights", "version": version}
        return self.client.put_job(job, make_layer(**{"task_count": 3, "package": package} | overrides)).revision

    def rounds(self, count: int) -> None:
        for _ in range(count):
            self.now += timedelta(seconds=ROUND_SECONDS)
            self.syncer.round(self.epoch)
            self.keeper.round(self.epoch)
            self.report_all()

    def report_all(self) -> None:
        """The container runs what it is served now, and says so."""
        if self.is_away:
            seconds = {"seconds": ROUND_SECONDS}
            self.do("UPDATE reports SET reported_at = reported_at - make_interval(secs => :seconds)", **seconds)
            return
        found = TemplateStore(self.engine).read()
        specs = [spec for stored in found.stored for spec in expand(template_of(stored))]
        self.report("a", found.commit_number)
        for spec in specs:
            if spec.index not in self.silent:
                self._report_task(spec)
        packages = [spec.config.package.version for spec in specs if spec.job == "j"]
        if packages != self._packages[-1]:
            self._packages.append(packages)

    @property
    def changes(self) -> list[list[str]]:
        """What the tasks of job j ran, one after another, since it first ran."""
        return self._packages[2:]

    def _report_task(self, spec: TaskSpec) -> None:
        is_bad = spec.config.package.version in self.bad
        progress = WORKED | {"quiesced": spec.quiescing}
        self.do(
            """
            INSERT INTO tasks (job, index, container, state, revision, generation, restarts, epoch, crashes, error,
                progress)
            VALUES (:job, :index, 'a', :state, :revision, :generation, :restarts, 1, :crashes, :error,
                CAST(:progress AS jsonb))
            """,
            **spec.model_dump(include={"job", "index", "revision", "generation", "restarts"}),
            state="crashed" if is_bad else "running",
            crashes=3 if is_bad else 0,
            error="no module" if is_bad else None,
            progress=None if is_bad else orjson.dumps(progress).decode(),
        )
        if not is_bad:
            ran = spec.model_dump(include={"job", "index", "revision", "generation", "restarts"})
            report = TaskReport(**ran, state=TaskState.RUNNING, epoch=1, progress=TaskProgress(**WORKED))
            with transaction(self.engine) as connection:
                save_proven(connection, [report])

    def rejected(self, job: str = "j") -> Any:
        return self.sync(job)["rejected"]

    def alerts(self, kind: str = "rolled_back", *, include_cleared: bool = False) -> list[Any]:
        return self.client.alerts(kind=kind, include_cleared=include_cleared).alerts

    def rollback_writes(self) -> list[Any]:
        """What was done to the layer, oldest first: action and author."""
        entries = self.client.history("j", layer="rollback").entries
        return [(entry.action, entry.author) for entry in reversed(entries)]
