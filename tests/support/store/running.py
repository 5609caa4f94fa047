"""Running rows written as the State Syncer writes them."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Engine, text

from penstock.store import leases
from penstock.store.engine import transaction
from penstock.store.running import STATE_SYNCER, CommitRow, commit_many, forget_many
from tests.support.store.jobs import make_config

_LEADER = "test-syncer"


def commit_job(engine: Engine, job: str, *, stopping: bool = False, **config: object) -> int:
    """Commits a configuration of a job; the commit number."""
    return commit_config(engine, job, json.dumps(make_config(**config)), stopping=stopping)


def commit_mixed(engine: Engine, job: str) -> int:
    """Commits the first wave of a rollout: only task 0 has priority 2; the commit number."""
    return commit_config(engine, job, json.dumps(make_config(priority=2)), rollout=FIRST_WAVE)


FIRST_WAVE = {"revision": 1, "upgraded": 1, "before": {"config": make_config(), "revision": 1, "restarts": 0}}


def break_row(engine: Engine, job: str) -> int:
    """Commits a configuration that no validation would let through; the commit number."""
    return commit_config(engine, job, '{"query": {}, "task_count": -1}')


def forget_job(engine: Engine, job: str) -> None:
    """Removes a job as after its deletion."""
    with transaction(engine) as connection:
        connection.execute(
            text("INSERT INTO jobs (name, revision, deleting) VALUES (:job, 1, true) ON CONFLICT DO NOTHING"),
            {"job": job},
        )
        epoch = leases.take(connection, STATE_SYNCER, _LEADER, url="", seconds=60.0)
        assert epoch is not None
        assert forget_many(connection, [job], epoch) == (job,)


def commit_order(engine: Engine, job: str, **order: Any) -> int:
    """Commits that the tasks of a job take no more rows (`CommitRow.quiescing`, `.level_ms`); the commit number."""
    return commit_config(engine, job, json.dumps(make_config()), **order)


def commit_config(engine: Engine, job: str, config: str, **row: Any) -> int:
    """Commits a configuration as it is, with other fields of its row; the commit number."""
    with transaction(engine) as connection:
        epoch = leases.take(connection, STATE_SYNCER, _LEADER, url="", seconds=60.0)
        assert epoch is not None
        commit = CommitRow(job, config.encode(), 1, 1, 0, stopping=False, started=True)._replace(**row)
        number = commit_many(connection, [commit], epoch, remade=[job])
        assert number is not None
        return number
