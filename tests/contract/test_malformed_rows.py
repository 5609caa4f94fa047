"""One malformed row harms its own job. It must not end a statement that reads all jobs."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from sqlalchemy import Engine, text

from penstock.model.jobs import JobState
from penstock.model.reports import TaskProgress
from penstock.store.engine import transaction
from penstock.store.running import CommitRow
from penstock.tasks.loads import TaskLoad
from penstock.tasks.selectors import UNREADABLE
from services.shard_manager.placement.needs import needs_of
from services.shard_manager.store.port import ShardStore
from services.state_syncer.decide.effects import PlanWrite
from services.state_syncer.decide.view import SyncRecord, Unusable
from services.state_syncer.inputs.reconciler import InputAlerts
from services.state_syncer.store.states import SyncWrite
from tests.contract.sync_store_forms import PostgresForm, write
from tests.contract.test_sync_store_rollouts import PLAN, commit, report, rolling_job
from tests.support.store.jobs import make_config, make_layer

_SPOILED = (
    """UPDATE running SET config = config || '{"container_labels": ["disk"], "task_count": 99999999999999999999}'""",
    """UPDATE running SET config = config || '{"container_labels": "disk", "resources": "many"}'""",
    """UPDATE running SET config = config || '{"region": [1], "resources": {"cpu_cores": "many", "disk_bytes": -1}}'""",
    "UPDATE running SET config = '[]'",
    "UPDATE tasks SET progress = '{}'",
    """UPDATE tasks SET progress = '{"batch_id": 1, "input_rows": "many"}'""",
    """UPDATE tasks SET progress = '{"batch_id": 1, "input_rows": 1.5e99}'""",
    "UPDATE tasks SET progress = '[]'",
    """UPDATE tasks SET progress = '{"input_problems": [1]}'""",
    "UPDATE task_loads SET load = '7'",
    """UPDATE task_loads SET load = '{"cpu_cores": "many", "memory_bytes": [1]}'""",
    "UPDATE task_metrics SET state_rows = 9223372036854775807, state_memory_bytes = 9223372036854775807",
)


def run(engine: Engine, statement: str, **values: Any) -> None:
    with transaction(engine) as connection:
        connection.execute(text(statement), values)


@pytest.fixture
def form(engine: Engine) -> PostgresForm:
    """Job j rolls out, as in the contract of rollouts; job `good` runs, and both have a task with figures."""
    form = PostgresForm(engine)
    form.layer("j", "base", make_layer())
    commit(form, None)
    write(form, plans=[PlanWrite("j", PLAN)])
    form.container("a")
    form.report("a", 1)
    form.own("a")
    form.report_task("a", report(progress=TaskProgress(batch_id=3, input_rows=5)))
    write(form, commits=[CommitRow("good", orjson.dumps(make_config(task_count=2)), 1, 1, 0, False, True)])
    for job in ("j", "good"):
        run(engine, "INSERT INTO task_loads VALUES (:job, 0, 1, '{\"cpu_cores\": 2}')", job=job)
        for index in range(2):
            values = {"job": job, "index": index}
            metrics = "INSERT INTO task_metrics (job, index, minute, state_rows) VALUES (:job, :index, now(), 7)"
            run(engine, metrics, **values)
    return form


@pytest.mark.parametrize(
    ("table", "column"), [("sync_state", "state"), ("sync_state", "change_kind"), ("tasks", "state")]
)
def test_a_word_of_another_release_harms_its_own_job_alone(form: PostgresForm, table: str, column: str) -> None:
    """A state or a kind that this release does not know: the other job is read, also one that is quiesced."""
    run(form.engine, "UPDATE sync_state SET plan = plan || '{\"step\": \"quiesce\"}' WHERE job = 'j'")
    run(form.engine, "UPDATE running SET quiescing_commit = commit_number WHERE job = 'j'")
    run(form.engine, f"ALTER TABLE {table} DROP CONSTRAINT {table}_{column}_check")
    run(form.engine, f"UPDATE {table} SET {column} = 'newer' WHERE job = 'j'")
    form.layer("good", "base", make_layer(task_count=2))
    with form.store.read() as found:
        assert found.rolling() is not None
        views = {view.job: view for view in found.named(["good", "j"])}
    assert views["good"].expected == make_config(task_count=2)
    if table == "sync_state":
        assert isinstance(views["j"].expected, Unusable)
        write(form, states=[SyncWrite("j", SyncRecord(JobState.FAILED, 9), views["j"].sync)])
        with transaction(form.engine) as connection:
            kept = connection.execute(text(f"SELECT {column} FROM sync_state WHERE job = 'j'")).scalar_one()
        assert kept == "newer", "nothing is written about it"


@pytest.mark.parametrize("spoil", _SPOILED)
def test_a_malformed_row_harms_its_own_job_alone(form: PostgresForm, spoil: str) -> None:
    run(form.engine, f"{spoil} WHERE job = 'j'")
    assert rolling_job(form).job == "j"
    with form.store.read() as found:
        assert [view.job for view in found.named(["j"])] == ["j"]
        assert found.state_bytes(["j", "good"])["good"] == 1400
    shards = ShardStore(form.engine)
    jobs, loads = shards.jobs(), shards.loads()
    assert TaskLoad("good", 0, 1, {"cpu_cores": 2}) in loads
    needs = needs_of(jobs, loads, shards.read(-1).facts.sharding)
    assert needs.load.sum() >= 2
    assert not InputAlerts(form.engine, lambda: 0.0).round(form.epoch)
    assert "labels" not in spoil or ("j", UNREADABLE) in needs.nowhere or "j" not in {job.job for job in jobs}
