"""Rows of the job `etl` that other services would write."""

from __future__ import annotations

from typing import Any

import orjson
from sqlalchemy import text

from penstock.store.engine import transaction
from tests.support.job_service.service import RunningJobService


def commit(service: RunningJobService, config: dict[str, Any], revision: int) -> None:
    execute(
        service,
        "INSERT INTO running (job, config, revision, generation, restarts, commit_number, leader_epoch)"
        " VALUES ('etl', :config, :revision, 1, 0, 1, 1)"
        " ON CONFLICT (job) DO UPDATE SET config = excluded.config, revision = excluded.revision",
        config=orjson.dumps(config).decode(),
        revision=revision,
    )


def report(service: RunningJobService, index: int, revision: int) -> None:
    execute(
        service,
        "INSERT INTO tasks (job, index, container, state, revision, generation, restarts, epoch)"
        " VALUES ('etl', :index, :container, 'running', :revision, 1, 0, 1)"
        " ON CONFLICT (job, index, container) DO UPDATE SET revision = excluded.revision",
        index=index,
        container=f"c{index}",
        revision=revision,
    )


def sync(service: RunningJobService, state: str, revision: int) -> None:
    execute(
        service,
        "INSERT INTO sync_state (job, state, revision, failures, next_attempt_at)"
        " VALUES ('etl', :state, :revision, 5, now()) ON CONFLICT (job)"
        " DO UPDATE SET state = excluded.state, revision = excluded.revision",
        state=state,
        revision=revision,
    )


def execute(service: RunningJobService, statement: str, **parameters: Any) -> None:
    with transaction(service.engine) as connection:
        connection.execute(text(statement), parameters)
