"""Whether several tasks may run a job, as far as its configuration says."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.spark.analysis.placement import Placements
from tests.support.spark.hosts import job_config

NO_FRAME: Any = None


@pytest.mark.parametrize(
    ("key_groups", "output", "mode"),
    [
        (1, {"type": "postgres", "table": "sums", "upsert_columns": ["word"]}, "update"),
        (8, {"type": "delta", "path": "/sums"}, "complete"),
    ],
    ids=["one key group", "a table that is replaced"],
)
def test_what_only_one_task_may_run_is_known_without_its_query(key_groups: int, output: dict[str, Any], mode: str):
    config = job_config("rows", key_groups, output, output_mode=mode)
    assert not Placements().may_split(NO_FRAME, {}, config)
