"""Whether a query does the same with a row as another."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.model import JobConfig
from penstock.spark.query_digest import query_digest


def config_of(**changed: Any) -> JobConfig:
    of = {
        "inputs": {"i0": {"topic": "clicks", "key_groups": 4, "value_schema": "v BIGINT"}},
        "query": {"sql": "SELECT v FROM i0"},
        "output": {"type": "kafka", "topic": "out"},
    }
    return JobConfig.model_validate(of | changed)


@pytest.mark.parametrize(
    "changed",
    [
        {"query": {"sql": "SELECT slow(v) AS v FROM i0"}},
        {"query": {"python": "jobs.slow:query"}, "package": {"name": "slow", "version": "2"}},
        {"inputs": {}, "streams": {"i0": {"format": "delta", "path": "/data/new"}}},
        {"output": {"type": "kafka", "topic": "other"}},
        {"args": {"rate": 1.0}},
    ],
)
def test_another_query_has_another_digest(changed: dict[str, Any]) -> None:
    assert query_digest(config_of(**changed)) != query_digest(config_of())


def test_a_rescale_and_other_limits_leave_the_digest() -> None:
    changed = {"task_count": 3, "max_batch_seconds": 20, "owner": "ann", "completeness": "drop_late"}
    assert query_digest(config_of(**changed)) == query_digest(config_of())
