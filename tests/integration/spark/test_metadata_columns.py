"""Columns of Kafka's record beside those of its value, through a real topic."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from penstock.local.kafka import EmbeddedKafka
from tests.support.spark.hosts import Supervisor, job_config, make_topic, rows_of_files, task_spec

METADATA = {
    "key": "k",
    "timestamp": "sent_at",
    "topic": "source",
    "partition": "part",
    "offset": "position",
    "headers": "h",
}
QUERY = """
    SELECT n, CAST(k AS STRING) AS k, unix_millis(sent_at) AS sent_at, source, part, position,
        transform(h, each -> concat(each.key, '=', CAST(each.value AS STRING))) AS h
    FROM events
"""


@pytest.mark.long
def test_a_query_has_the_columns_of_the_record_that_it_names(
    shared_host: Supervisor, shared_folder: Path, kafka: EmbeddedKafka
) -> None:
    """1. A record with all of them, and one without key and headers. 2. A malformed one between them, which has an
    offset, too."""
    topic, output = make_topic(kafka.bootstrap, 2), shared_folder / "metadata"
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, b'{"n": 1}', key=b"one", partition=1, timestamp=1_700_000_000_123, headers=[("a", b"x")])
    producer.produce(topic, b"no JSON", partition=1, timestamp=1_700_000_000_124)
    producer.produce(topic, b'{"n": 2}', partition=1, timestamp=1_700_000_000_125)
    assert producer.flush(30) == 0
    more = {"query": {"sql": QUERY}, "source": {"metadata_columns": METADATA, "malformed_limit": 1.0}}
    spec = task_spec("metadata", job_config(topic, 2, {"type": "files", "path": str(output)}, **more))
    assert shared_host.start(spec).ok
    shared_host.wait_for_records(spec.task_id, 3)
    shared_host.stop(spec.task_id, finish_pending=True)
    found = rows_of_files(output / "g1" / "task-0").sort_values("n").to_dict("records")
    assert [{**row, "h": None if row["h"] is None else list(row["h"])} for row in found] == [
        {"n": 1, "k": "one", "sent_at": 1_700_000_000_123, "source": topic, "part": 1, "position": 0, "h": ["a=x"]},
        {"n": 2, "k": None, "sent_at": 1_700_000_000_125, "source": topic, "part": 1, "position": 2, "h": None},
    ]
