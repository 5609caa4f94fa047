"""Whether several tasks may run a job, as far as its configuration says."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from penstock.config.colocation import OTHER_STREAM, Relation
from penstock.config.plan_dataflow import PlanFacts
from penstock.control.errors import BrokenTask
from penstock.spark.analysis import placement
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


def test_tasks_that_start_together_and_those_of_another_size_ask_spark_for_the_plan_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1. Four tasks start together. 2. After a rescale others start, and are told their own number of tasks."""
    asked: list[Any] = []
    together = Barrier(4)
    reads_another = PlanFacts(result=Relation(inputs=frozenset({OTHER_STREAM})))
    monkeypatch.setattr(placement, "_types_read", lambda frame: "")
    monkeypatch.setattr(placement, "_plan", asked.append)
    monkeypatch.setattr(placement, "read_plan", lambda plan, columns: reads_another)
    of_four = job_config("rows", 8, {"type": "delta", "path": "/rows"}, task_count=4)
    placements = Placements()

    def start(number: int) -> None:
        together.wait(10)
        with pytest.raises(BrokenTask, match="each of the 4 tasks"):
            placements.require(NO_FRAME, {}, of_four)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(start, range(4)))
    with pytest.raises(BrokenTask, match="each of the 2 tasks"):
        placements.require(NO_FRAME, {}, of_four.model_copy(update={"task_count": 2}))
    assert len(asked) == 1


def test_a_plan_with_tables_is_read_for_each_number_of_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table may have got other columns since."""
    asked: list[Any] = []
    monkeypatch.setattr(placement, "_types_read", lambda frame: "")
    monkeypatch.setattr(placement, "_plan", asked.append)
    monkeypatch.setattr(placement, "read_plan", lambda plan, columns: PlanFacts())
    of_two = job_config(
        "rows", 8, {"type": "delta", "path": "/rows"}, task_count=2, tables={"dim": {"format": "delta", "path": "/dim"}}
    )
    placements = Placements()
    for task_count in (2, 2, 3):
        placements.require(NO_FRAME, {}, of_two.model_copy(update={"task_count": task_count}))
    assert len(asked) == 2
