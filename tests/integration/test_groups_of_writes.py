"""Writes that share a transaction have the outcomes, and leave in the store, what the same writes one after the other
do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, text

from penstock.control.clock import SystemClock
from penstock.control.errors import UserError
from penstock.model.jobs import Action
from penstock.store.engine import transaction
from penstock.wire.jobs import Written
from services.job_service.layer_expiry import Expiry
from services.job_service.writer import Asked, Outcome, write_many, write_shared
from services.job_service.writes import Precondition, Write
from tests.support.job_service.service import CONFIG

JOBS = ("a", "b", "c", "deleting", "packed", "unknown")
CLOCK = SystemClock()
CONTENT = st.fixed_dictionaries(
    {},
    optional={
        "priority": st.sampled_from([1, 5, None]),
        "labels": st.sampled_from([{"x": "y"}, {"x": None}, None]),
        "threads_per_task": st.sampled_from([0, 1, 2]),
        "desired_state": st.sampled_from(["stopped", "running", "gone"]),
        "task_count": st.sampled_from([1, 2]),
        "owner": st.sampled_from(["", "bob"]),
    },
)
WRITES = st.builds(
    Write,
    st.sampled_from([Action.PUT, Action.PATCH, Action.DROP]),
    st.sampled_from(JOBS),
    st.sampled_from(["ann", "bob"]),
    st.sampled_from(["base", "provisioner", "oncall", "nowhere"]),
    CONTENT,
    st.sampled_from(["", "why"]),
    st.builds(Precondition, if_match=st.sampled_from([None, 0, 1, 2])),
    st.sampled_from([None, Expiry(None), Expiry(60.0)]),
)
GROUPS = st.lists(WRITES, min_size=1, max_size=len(JOBS), unique_by=lambda write: write.job)
_ROWS = {
    "jobs": "SELECT name, revision, restarts, deleting, owner FROM jobs ORDER BY name",
    "layers": "SELECT job, layer, config, version, revision, author, reason, expires_at IS NULL AS stays"
    " FROM expected_layers ORDER BY job, layer",
    "merged": "SELECT job, config, digests, revision, basis FROM expected_configs ORDER BY job",
    "history": "SELECT job, layer, version, revision, action, author, reason, old, new, expires_at IS NULL AS stays"
    " FROM history ORDER BY id",
}


@pytest.fixture
def filled(engine: Engine) -> Engine:
    """Jobs: with an override, with a dropped one, without one; one that is being deleted, one with a package."""
    packed = {"query": {"python": "m:f"}, "package": {"name": "p", "version": "1"}}
    first = [Write(Action.CREATE, job, "ann", config=_config(job)) for job in JOBS[:4]]
    first.append(Write(Action.CREATE, "packed", "ann", config={**_config("packed"), **packed}))
    layer = {"layer": "oncall", "precondition": Precondition(if_match=0)}
    then = [Write(Action.PUT, job, "ann", config={"priority": 3, "labels": {"x": "z"}}, **layer) for job in ("a", "b")]
    last = [
        Write(Action.DROP, "b", "ann", "oncall", precondition=Precondition(if_match=1)),
        Write(Action.DELETE, "deleting", "ann", precondition=Precondition(if_match=1)),
    ]
    with transaction(engine) as connection:
        for writes in (first, then, last):
            assert all(isinstance(each, Written) for each in one_by_one(connection, writes))
    return engine


def _config(job: str) -> dict[str, Any]:
    return {**CONFIG, "output": {"type": "kafka", "topic": f"out-{job}"}}


def one_by_one(connection: Connection, writes: Sequence[Write]) -> list[Outcome]:
    return [outcome for write in writes for outcome in write_many(connection, [write], CLOCK, CLOCK.monotonic(), ())]


def _stored(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    return {name: [dict(row) for row in connection.execute(text(rows)).mappings()] for name, rows in _ROWS.items()}


def _told(outcome: Outcome) -> Any:
    if isinstance(outcome, UserError):
        return type(outcome), outcome.detail, outcome.field, outcome.rule, outcome.extra
    return outcome.model_dump(exclude={"expires_at"}), outcome.expires_at is None


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(writes=GROUPS)
def test_a_group_is_its_writes_one_after_the_other(filled: Engine, writes: list[Write]) -> None:
    """1. Writes to different jobs share a transaction; those that it leaves out follow alone. 2. From the same store
    the same writes are made one after the other. Outcomes and rows are the same; no write that is left out was done."""
    with filled.connect() as connection:
        shared = write_shared(connection, [Asked(write, CLOCK.monotonic()) for write in writes], CLOCK, ())
        left_out = [write for write, outcome in zip(writes, shared, strict=True) if outcome is None]
        later = iter(one_by_one(connection, left_out))
        together = [next(later) if outcome is None else outcome for outcome in shared]
        after_group = _stored(connection)
        connection.rollback()
        order = [write for write in writes if write not in left_out] + left_out
        found = dict(zip((write.job for write in order), one_by_one(connection, order), strict=True))
        after_all = _stored(connection)
        connection.rollback()
    assert [_told(outcome) for outcome in together] == [_told(found[write.job]) for write in writes]
    assert after_group == after_all
    assert all(write.job != "unknown" or write in left_out for write in writes)
