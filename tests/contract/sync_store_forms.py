"""The job store of the State Syncer's contract suite, with the hands of its other writers: on Postgres, in memory."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import orjson
import pytest
from sqlalchemy import Engine, text

from penstock.model.alerts import AlertKind
from penstock.model.jobs import JobState
from penstock.model.reports import TaskReport, TaskState
from penstock.store.alerts import open_subjects
from penstock.store.engine import transaction
from penstock.store.running import STATE_SYNCER, CommitRow
from penstock.tasks.ownership import Member
from penstock.tasks.redistribution import SavepointName
from penstock.tasks.rollout import OrderedRollout
from services.state_syncer.decide.progress import Restore
from services.state_syncer.decide.view import JobView, SyncRecord
from services.state_syncer.store.port import Batch, SyncStore
from services.state_syncer.store.states import SyncWrite
from services.task_service.store.port import TemplateStore
from tests.support.memory.specs import MemoryTemplateStore
from tests.support.memory.store import BEGIN, LeaseEntry, MemoryStore, ReportEntry
from tests.support.memory.sync import MemorySyncStore
from tests.support.state_syncer.cell import Cell
from tests.support.store import jobs
from tests.support.store.unreachable import unreachable_engine

FORMS = ("postgres", "memory")


class PostgresForm:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.store: SyncStore = SyncStore(engine)
        self.away: SyncStore = SyncStore(unreachable_engine())
        cell = Cell(engine)
        self.epoch, self.container, self.report = cell.epoch, cell.container, cell.report

    def templates(self) -> TemplateStore:
        """As the Task Service reads the same store."""
        return TemplateStore(self.engine)

    def depose(self) -> None:
        self._do("UPDATE leases SET epoch = epoch + 1")

    def layer(self, job: str, layer: str, config: Any) -> int:
        return jobs.write_layer(self.engine, job, config, layer=layer)

    def delete(self, job: str) -> int:
        return jobs.delete_job(self.engine, job)

    def undelete(self, job: str) -> None:
        self._do("UPDATE jobs SET deleting = false")

    def restart(self, job: str) -> int:
        return jobs.restart_job(self.engine, job)

    def release(self, job: str) -> None:
        jobs.release_job(self.engine, job)

    def rank(self, layer: str, rank: int) -> None:
        self._do("UPDATE layers SET rank = :rank WHERE name = :layer", rank=rank, layer=layer)

    def quarantined(self) -> set[str]:
        return self._open_subjects(AlertKind.QUARANTINED)

    def own(self, container: str) -> None:
        """The container owns all shards."""
        self._do("UPDATE cluster SET value = '4' WHERE key = 'shard_count'")
        self._do(
            """
            INSERT INTO assignment (shard, container, epoch) SELECT n, :name, 1 FROM generate_series(0, 3) AS n
            ON CONFLICT (shard) DO UPDATE SET container = excluded.container
            """,
            name=container,
        )

    def report_task(self, container: str, task: TaskReport) -> None:
        """One task more in what the container reported last."""
        self._do(
            """
            INSERT INTO tasks (job, index, container, state, revision, generation, restarts, epoch, crashes, error,
                progress)
            VALUES (:job, :index, :container, :state, :revision, :generation, :restarts, :epoch, :crashes, :error,
                NULLIF(CAST(:progress AS jsonb), 'null'))
            """,
            container=container,
            **task.model_dump(mode="json", exclude={"progress", "out_of_memory"}),
            progress="null" if task.progress is None else task.progress.model_dump_json(),
        )

    def new_life(self, container: str) -> None:
        """Another process of the container, which has reported nothing."""
        self._do("UPDATE containers SET incarnation = 'life-2' WHERE name = :name", name=container)

    def restore(self, job: str, config: Any) -> None:
        self._do(
            """
            INSERT INTO restores (job, savepoint, savepoint_job, savepoint_name, generation, config)
            VALUES (:job, 1, :job, 's', 1, CAST(:config AS jsonb))
            """,
            job=job,
            config=orjson.dumps(config).decode(),
        )

    def spoil_plan(self, job: str) -> None:
        self._do("UPDATE sync_state SET plan = plan - 'ends' WHERE job = :job", job=job)

    def spoil_rejected(self, job: str) -> None:
        self._do("UPDATE sync_state SET rejected = rejected - 'leaves' WHERE job = :job", job=job)

    def rejected(self, job: str) -> Any:
        with transaction(self.engine) as connection:
            found = connection.execute(text("SELECT rejected FROM sync_state WHERE job = :job"), {"job": job})
            return found.scalar_one()

    def rolled_back(self) -> set[str]:
        return self._open_subjects(AlertKind.ROLLED_BACK)

    def rollback_refused(self) -> set[str]:
        return self._open_subjects(AlertKind.ROLLBACK_REFUSED)

    def rollouts_late(self) -> set[str]:
        return self._open_subjects(AlertKind.ROLLOUT_LATE)

    def order_rollout(self, job: str, order: OrderedRollout) -> None:
        """As the Job Service records it."""
        self._do(
            "UPDATE sync_state SET rollout_order = CAST(:order AS jsonb) WHERE job = :job",
            job=job,
            order=order.model_dump_json(),
        )

    def silence(self, container: str, seconds: float) -> None:
        """The container reported last so long ago, and its last heartbeat is as old."""
        self._do(
            "UPDATE reports SET reported_at = now() - make_interval(secs => :seconds) WHERE container = :container",
            seconds=seconds,
            container=container,
        )
        self.heartbeat(container, seconds)

    def heartbeat(self, container: str, seconds: float) -> None:
        """The newest heartbeat that the Shard Manager wrote is so old."""
        self._do(
            "UPDATE containers SET heartbeat_at = now() - make_interval(secs => :seconds) WHERE name = :container",
            seconds=seconds,
            container=container,
        )

    def cancel_restore(self, job: str) -> None:
        self._do("DELETE FROM restores WHERE job = :job", job=job)

    def _open_subjects(self, kind: AlertKind) -> set[str]:
        with transaction(self.engine) as connection:
            return open_subjects(connection, kind)

    def _do(self, sql: str, **values: Any) -> None:
        with transaction(self.engine) as connection:
            connection.execute(text(sql), values)


class MemoryForm:
    def __init__(self, store: MemoryStore) -> None:
        self.memory = store
        self.epoch = 1
        store.leases[STATE_SYNCER] = LeaseEntry("first", self.epoch, float("inf"))
        self.store: SyncStore = MemorySyncStore(store)
        away = MemorySyncStore(store)
        away.down = True
        self.away: SyncStore = away

    def container(self, name: str, state: str = "live") -> None:
        self.memory.members[name] = Member(
            name, "life-1", "http://x", "r", 1.0, 1, 1, state == "live", labels={"disk": "ssd"}
        )
        self.heartbeat(name, 0.0)

    def report(self, container: str, commit: int, *jobs: str) -> None:
        self.memory.reports[container] = ReportEntry("life-1", commit)
        self.memory.tasks[container] = tuple(
            TaskReport(job=job, index=0, state=TaskState.RUNNING, revision=1, generation=1, restarts=0, epoch=1)
            for job in jobs
        )

    def templates(self) -> TemplateStore:
        templates: TemplateStore = MemoryTemplateStore(self.memory)
        return templates

    def depose(self) -> None:
        self.memory.leases[STATE_SYNCER].epoch += 1

    def layer(self, job: str, layer: str, config: Any) -> int:
        return self.memory.write_layer(job, layer, config)

    def delete(self, job: str) -> int:
        self.memory.jobs[job].deleting = True
        return self._touch(job)

    def undelete(self, job: str) -> None:
        self.memory.jobs[job].deleting = False

    def restart(self, job: str) -> int:
        self.memory.jobs[job].restarts += 1
        return self._touch(job)

    def release(self, job: str) -> None:
        held = self.memory.sync_states[job]
        self.memory.sync_states[job] = replace(held, state=JobState.PENDING, failures=0, next_attempt_at=None)

    def rank(self, layer: str, rank: int) -> None:
        self.memory.ranks[layer] = rank

    def quarantined(self) -> set[str]:
        return self.memory.quarantined

    def own(self, container: str) -> None:
        self.memory.give(self.memory.owners, container)

    def report_task(self, container: str, task: TaskReport) -> None:
        self.memory.tasks[container] = (*self.memory.tasks.get(container, ()), task)

    def new_life(self, container: str) -> None:
        self.memory.members[container] = self.memory.members[container]._replace(incarnation="life-2")

    def restore(self, job: str, config: Any) -> None:
        source = SavepointName(job=job, name="s", number=1)
        self.memory.restores[job] = Restore(number=1, savepoint=source, generation=1, config=config)

    def spoil_plan(self, job: str) -> None:
        self.memory.plans[job] = {name: value for name, value in self.memory.plans[job].items() if name != "ends"}

    def spoil_rejected(self, job: str) -> None:
        del self.memory.rejected[job]["leaves"]

    def rejected(self, job: str) -> Any:
        return self.memory.rejected.get(job)

    def rolled_back(self) -> set[str]:
        return self.memory.rolled_back

    def rollback_refused(self) -> set[str]:
        return self.memory.rollback_refused

    def rollouts_late(self) -> set[str]:
        return self.memory.rollouts_late

    def order_rollout(self, job: str, order: OrderedRollout) -> None:
        self.memory.rollout_orders[job] = order.model_dump(mode="json")

    def silence(self, container: str, seconds: float) -> None:
        told = self.memory.reports[container]
        self.memory.reports[container] = replace(told, reported_at=self.memory.now() - seconds)
        self.heartbeat(container, seconds)

    def heartbeat(self, container: str, seconds: float) -> None:
        self.memory.heard_at[container] = BEGIN + timedelta(seconds=self.memory.now() - seconds)

    def cancel_restore(self, job: str) -> None:
        del self.memory.restores[job]

    def _touch(self, job: str) -> int:
        self.memory.jobs[job].revision = self.memory.next_number("revision")
        return self.memory.jobs[job].revision


def make_form(request: pytest.FixtureRequest) -> Any:
    """The form that a fixture with the parameters `FORMS` asks for."""
    if request.param == "postgres":
        return PostgresForm(request.getfixturevalue("engine"))
    return MemoryForm(request.getfixturevalue("memory"))


def views(form: Any) -> dict[str, JobView]:
    """All that a round with much room looks at, rollouts with their configurations."""
    with form.store.read() as found:
        seen = {view.job: view for view in found.views}
        rolling = [job.job for job in found.rolling().jobs]
        for each in (found.named(rolling), found.queued(rescales=99, rollouts=99)):
            seen |= {view.job: view for view in each}
    return seen


def view(form: Any, job: str = "j") -> JobView:
    return views(form)[job]


def commit(job: str = "j", *, revision: int = 1, generation: int = 1, stopping: bool = False, **config: Any) -> Any:
    content = orjson.dumps(jobs.make_config(**config))
    return CommitRow(job, content, revision, generation, 0, stopping, not stopping)


def state(
    new: JobState, seen: SyncRecord | None = None, *, revision: int = 1, failures: int = 0, job: str = "j"
) -> SyncWrite:
    return SyncWrite(job, SyncRecord(new, revision, "why", failures=failures), seen)


def write(form: Any, **batch: Any) -> Any:
    return form.store.write(Batch(**batch), form.epoch)


def settle_ranks(form: Any) -> None:
    with form.store.read() as found:
        ranks = found.new_ranks
    assert ranks is not None
    write(form, ranks=ranks)
