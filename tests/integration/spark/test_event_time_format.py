"""An input whose records write the event time as milliseconds since 1970, through a real topic."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from penstock.local.kafka import EmbeddedKafka
from tests.support.spark.hosts import Supervisor, job_config, make_topic, rows_of_files, task_spec

NOON = 1_704_110_400_000
SOURCE = {
    "value_schema": "n BIGINT, at TIMESTAMP",
    "event_time_column": "at",
    "event_time_format": "epoch_millis",
    "watermark_delay": "1 hour",
    "malformed_limit": 1.0,
}


@pytest.mark.long
def test_a_query_gets_event_times_of_a_format_and_no_record_with_another(
    shared_host: Supervisor, shared_folder: Path, kafka: EmbeddedKafka
) -> None:
    """Milliseconds; between them microseconds, which would be another time, and a text, which is none."""
    topic, output = make_topic(kafka.bootstrap, 1), shared_folder / "event-time-format"
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number, at in enumerate((NOON, NOON * 1000, f'"{NOON}"', NOON + 1)):
        producer.produce(topic, f'{{"n": {number}, "at": {at}}}'.encode())
    assert producer.flush(30) == 0
    more = {"query": {"sql": "SELECT n, unix_millis(at) AS at FROM events"}, "source": SOURCE}
    spec = task_spec("event-time-format", job_config(topic, 1, {"type": "files", "path": str(output)}, **more))
    assert shared_host.start(spec).ok
    shared_host.wait_for_records(spec.task_id, 4)
    shared_host.stop(spec.task_id, finish_pending=True)
    found = rows_of_files(output / "g1" / "task-0").sort_values("n").to_dict("records")
    assert found == [{"n": 0, "at": NOON}, {"n": 3, "at": NOON + 1}]
