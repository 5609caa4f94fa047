"""Outputs that are made before any task of their job runs, on a real broker and Delta."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from penstock.control.errors import BrokenTask
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.analysis.analyse import analyse
from penstock.spark.initialize import initialize
from penstock.spark.inputs.record_sample import EVENT_TIME
from penstock.spark.task import Runtime
from penstock.tasks.sinks import SinkRequest
from tests.support.spark.redistribution import Events, job_config
from tests.support.spark.session import unique

TOPICS = {"events": "an-input-that-nobody-has-made"}


def request(output: dict[str, Any], sql: str = "SELECT k, v FROM events") -> SinkRequest:
    """Of a job with two tasks whose input is not there either."""
    config = job_config(TOPICS, "spark", output, query={"sql": sql}, task_count=2)
    return SinkRequest(job=unique("job"), revision=1, config=config)


def partitions(bootstrap: str, topic: str) -> int:
    return len(AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=15).topics[topic].partitions)


def test_a_topic_has_its_key_groups_and_one_of_another_size_is_refused(runtime: Runtime, kafka: EmbeddedKafka) -> None:
    output = {"type": "kafka", "topic": unique("made"), "key_groups": 5, "key_columns": ["k"]}
    for _ in range(2):
        initialize(runtime, request(output))
    assert partitions(kafka.bootstrap, output["topic"]) == 5
    with pytest.raises(BrokenTask, match="has 5 partitions, not 6"):
        initialize(runtime, request({**output, "key_groups": 6}))


@pytest.mark.long
def test_a_table_has_the_columns_of_the_query_and_no_checkpoint_is_begun(
    runtime: Runtime, spark: SparkSession, tmp_path: Path
) -> None:
    asked = request({"type": "delta", "path": str(tmp_path / "table")})
    for _ in range(2):
        initialize(runtime, asked)
    table = spark.read.format("delta").load(str(tmp_path / "table"))
    assert (table.columns, table.count()) == (["k", "v"], 0)
    assert not (Path(runtime.settings.checkpoint_root) / asked.job).exists()
    with pytest.raises(BrokenTask, match=r"output\.connection"):
        initialize(runtime, request({"type": "postgres", "connection": "nowhere", "table": "out"}))


def test_a_query_that_cannot_run_is_told(runtime: Runtime, tmp_path: Path) -> None:
    output = {"type": "delta", "path": str(tmp_path / "table")}
    with pytest.raises(BrokenTask, match="query"):
        initialize(runtime, request(output, sql="SELECT nothing FROM events"))
    assert not (tmp_path / "table").exists()


def test_no_sample_of_records_refuses_a_start(runtime: Runtime, events: Events) -> None:
    """1. No record has the event time, so a write is refused. 2. A job accepted all the same gets its output."""
    events.add_range(0, 20)
    output = {"type": "kafka", "topic": unique("made"), "key_groups": 2}
    config = job_config({"events": events.topic}, "spark", output, query={"sql": "SELECT k FROM events"}, task_count=2)
    source = {"value_schema": "k STRING, `when` TIMESTAMP", "event_time_column": "when"}
    config = config.model_copy(update={"inputs": {"events": config.inputs["events"].model_copy(update=source)}})
    told = analyse(runtime.spark, runtime.settings, "early", config).problems
    assert [problem.rule for problem in told] == [EVENT_TIME]
    initialize(runtime, SinkRequest(job="early", revision=1, config=config))
    assert partitions(events.bootstrap, output["topic"]) == 2
