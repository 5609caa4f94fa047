"""Selectors and shards as SQL has them, and as Python does."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, text

from penstock.store.engine import transaction
from penstock.store.selectors import selector_in
from penstock.store.simple_rollouts import SHARD
from penstock.tasks.selectors import selector_of
from penstock.tasks.shards import SLOTS, Sharding
from penstock.tasks.spec import task_id

NAMES = st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,3}[a-z0-9])?", fullmatch=True) | st.sampled_from(
    ["a", "a-b", "a.b", "a0"]
)
LABELS = st.none() | st.dictionaries(NAMES, NAMES, max_size=4)
CONFIGS = st.fixed_dictionaries({}, optional={"region": st.none() | NAMES, "container_labels": LABELS})
SELECTORS = tuple(f"r{place}" if place % 2 else f"r{place},disk=ssd" for place in range(SLOTS))
TASKS = st.tuples(NAMES, st.integers(0, 9999), st.sampled_from([None, "elsewhere", *SELECTORS]))

_IN_SQL = text(f"SELECT {selector_in('config')} FROM jsonb_array_elements(CAST(:configs AS jsonb)) AS config")
_SHARDS_IN_SQL = text(
    f"""
    SELECT {SHARD} FROM jsonb_to_recordset(CAST(:tasks AS jsonb)) AS t (job text, index int, selector text),
        (SELECT CAST(:shards AS bigint) AS shards, CAST(:selectors AS jsonb) AS selectors) AS cell
    """
)
FEW = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def asked(engine: Engine, statement: Any, **values: Any) -> list[Any]:
    with transaction(engine) as connection:
        return list(connection.execute(statement, values).scalars())


@FEW
@given(st.lists(CONFIGS, max_size=20))
def test_the_selector_of_a_stored_configuration(engine: Engine, configs: list[dict[str, Any]]) -> None:
    found = asked(engine, _IN_SQL, configs=orjson.dumps(configs).decode())
    assert found == [selector_of(config) for config in configs]


@FEW
@given(st.lists(TASKS, max_size=20), st.integers(1, 1_000_000), st.integers(0, SLOTS))
def test_the_shard_of_a_task(engine: Engine, tasks: list[tuple[str, int, str | None]], count: int, known: int) -> None:
    sharding = Sharding(count, SELECTORS[:known])
    rows = [{"job": job, "index": index, "selector": selector} for job, index, selector in tasks]
    names = orjson.dumps(sharding.selectors).decode()
    found = asked(engine, _SHARDS_IN_SQL, tasks=orjson.dumps(rows).decode(), shards=count, selectors=names)
    assert found == [sharding.shard_of(task_id(job, index), selector) for job, index, selector in tasks]
