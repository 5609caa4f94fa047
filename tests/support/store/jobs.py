"""Builders of configurations, and jobs written straight to the store as the Job Service would write them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import islice
from typing import Any

import orjson
from sqlalchemy import Connection, Engine, text

from penstock.config.basis import merge_basis
from penstock.config.merge import overlay
from penstock.config.validate import check_merged
from penstock.control.errors import InvalidConfig
from penstock.store.engine import CHANGED_EXPECTED, next_number, notify, transaction
from penstock.tasks.digests import digests_of
from services.job_service.store.layers import all_layers

BASE: Mapping[str, Any] = {
    "query": {"sql": "SELECT key, value FROM events"},
    "inputs": {"events": {"topic": "events", "key_groups": 8, "format": "raw"}},
    "output": {"type": "kafka", "topic": "out"},
    "task_count": 2,
}


def make_layer(**overrides: Any) -> dict[str, Any]:
    """A base layer that is valid by itself; maps among `overrides` are merged into it."""
    return overlay(BASE, overrides)


def make_config(**overrides: Any) -> dict[str, Any]:
    """The complete configuration, as JSON, that `make_layer` gives."""
    return check_merged(make_layer(**overrides)).model_dump(mode="json")


def write_layer(engine: Engine, job: str, config: Mapping[str, Any] | None, *, layer: str = "base") -> int:
    """Writes a layer of a job, which is made when there is none, unchecked; the revision. None drops the layer.

    As the Job Service does, it stores what the layers merge to; nothing when that is not valid.
    """
    with transaction(engine) as connection:
        revision = _touch_job(connection, job)
        values = {"job": job, "layer": layer, "revision": revision, "config": _json(config)}
        connection.execute(_WRITE_LAYER, values)
        _store_merged(connection, job, revision)
        return revision


def write_layers(engine: Engine, layer: Mapping[str, Any], jobs: Iterable[str]) -> None:
    """Writes the same base layer of many jobs, a thousand in one transaction, as `write_layer` writes one."""
    merged = check_merged(dict(layer)).model_dump(mode="json")
    config, digests = _json(merged), _json(digests_of(merged))
    for names in batched(jobs, 1000):
        with transaction(engine) as connection:
            basis = merge_basis(all_layers(connection))
            revisions = [{"job": job, "revision": next_number(connection, "revision")} for job in names]
            connection.execute(_TOUCH, revisions)
            written = {"layer": "base", "config": _json(layer)}
            connection.execute(_WRITE_LAYER, [each | written for each in revisions])
            stored = {"config": config, "digests": digests, "basis": basis}
            connection.execute(_STORE_MERGED, [each | stored for each in revisions])
            notify(connection, CHANGED_EXPECTED, "")


def delete_job(engine: Engine, job: str) -> int:
    """Marks a job for deletion; the revision."""
    with transaction(engine) as connection:
        revision = _touch_job(connection, job)
        connection.execute(text("UPDATE jobs SET deleting = true WHERE name = :job"), {"job": job})
        return revision


def restart_job(engine: Engine, job: str) -> int:
    """Asks for a restart; the revision."""
    with transaction(engine) as connection:
        revision = _touch_job(connection, job)
        connection.execute(text("UPDATE jobs SET restarts = restarts + 1 WHERE name = :job"), {"job": job})
        return revision


def release_job(engine: Engine, job: str) -> None:
    """Lets a job out of quarantine."""
    statement = text("UPDATE sync_state SET state = 'pending', failures = 0, next_attempt_at = NULL WHERE job = :job")
    with transaction(engine) as connection:
        connection.execute(statement, {"job": job})
        notify(connection, CHANGED_EXPECTED, job)


_TOUCH = text(
    """
    INSERT INTO jobs (name, revision) VALUES (:job, :revision)
    ON CONFLICT (name) DO UPDATE SET revision = excluded.revision
    """
)
_WRITE_LAYER = text(
    """
    INSERT INTO expected_layers AS held (job, layer, config, version, revision, author)
    VALUES (:job, :layer, CAST(:config AS jsonb),
        1 + coalesce((SELECT max(version) FROM history WHERE job = :job AND layer = :layer), 0), :revision, 'test')
    ON CONFLICT (job, layer) DO UPDATE SET
        config = excluded.config, version = held.version + 1, revision = excluded.revision
    """
)


_LAYERS = text(
    """
    SELECT e.config FROM expected_layers e JOIN layers l ON l.name = e.layer
    WHERE e.job = :job AND e.config IS NOT NULL ORDER BY l.rank
    """
)
_STORE_MERGED = text(
    """
    INSERT INTO expected_configs (job, config, digests, revision, basis)
    VALUES (:job, CAST(:config AS jsonb), CAST(:digests AS jsonb), :revision, :basis)
    ON CONFLICT (job) DO UPDATE SET config = excluded.config, digests = excluded.digests,
        revision = excluded.revision, basis = excluded.basis
    """
)


def batched(names: Iterable[str], count: int) -> Iterator[list[str]]:
    """The names in groups of so many."""
    left = iter(names)
    while group := list(islice(left, count)):
        yield group


def _store_merged(connection: Connection, job: str, revision: int) -> None:
    layers = connection.execute(_LAYERS, {"job": job}).scalars()
    try:
        merged = check_merged(reduce(overlay, layers, {})).model_dump(mode="json")
    except InvalidConfig:
        return
    values = {"job": job, "revision": revision, "basis": merge_basis(all_layers(connection))}
    stored = {"config": _json(merged), "digests": _json(digests_of(merged))}
    connection.execute(_STORE_MERGED, values | stored)


def _touch_job(connection: Connection, job: str) -> int:
    revision = next_number(connection, "revision")
    connection.execute(_TOUCH, {"job": job, "revision": revision})
    notify(connection, CHANGED_EXPECTED, job)
    return revision


def _json(config: Mapping[str, Any] | None) -> str | None:
    return None if config is None else orjson.dumps(config).decode()
