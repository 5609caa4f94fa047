"""Where the pending batch of a job goes when an output cannot take it."""

from __future__ import annotations

from typing import Any

from penstock.config.model import JobConfig
from penstock.spark.redistribute.pending_outputs import pending_written_by, without_removed

TABLE = {"type": "delta", "path": "/tables/a"}


def job(output: dict[str, Any], **sides: dict[str, Any]) -> JobConfig:
    return JobConfig.model_validate(
        {
            "query": {"sql": "SELECT * FROM e"},
            "inputs": {"e": {"topic": "e", "key_groups": 2, "value_schema": "n INT"}},
            "output": output,
            "side_outputs": {name: {"output": side} for name, side in sides.items()},
        }
    )


def topic(name: str, cluster: str | None = None) -> dict[str, Any]:
    return {"type": "kafka", "topic": name, "cluster": cluster}


def test_outputs_elsewhere_stay():
    source = job(topic("a", "eu"), b=topic("b"), c=TABLE)
    assert pending_written_by(source, job(topic("x")), {"us"}) == source


def test_an_output_whose_cluster_is_gone_is_the_new_one():
    source = job(topic("a", "us"), b=TABLE)
    assert pending_written_by(source, job(topic("x")), {"us"}) == job(topic("x"), b=TABLE)


def test_a_side_output_whose_cluster_is_gone_is_the_new_one_of_its_name_or_none():
    source = job(TABLE, b=topic("b", "us"), c=topic("c", "us"))
    target = job(topic("x"), c=topic("c"), d=topic("d"))
    assert pending_written_by(source, target, {"us"}) == job(TABLE, c=topic("c"))


def test_a_removed_side_output_may_be_left_out():
    source = job(TABLE, b=topic("b"), c=topic("c"))
    assert without_removed(source, job(topic("x"), c=topic("d"))) == job(TABLE, c=topic("c"))
