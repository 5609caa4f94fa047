"""A field that no record has, by the commands of a user: refused by plan and by apply before a task runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.control.errors import NotFound
from penstock.control.process import wait_until
from penstock.local.topics import create_topics
from tests.support.chaos.stack import ChaosStack
from tests.support.cli.terminal import Terminal
from tests.support.stack.feeding import producer

pytestmark = pytest.mark.long
NAME = "misspelt"
RECORDS = 30
GONE_S = 60.0


def config(time: str) -> dict[str, Any]:
    return {
        "inputs": {
            "events": {
                "topic": NAME,
                "key_groups": 2,
                "value_schema": f"id BIGINT, {time} TIMESTAMP",
                "event_time_column": time,
                "watermark_delay": "10 seconds",
            }
        },
        "query": {"sql": f"SELECT window.end AS until, count(*) AS c FROM events GROUP BY window({time}, '1 minute')"},
        "output": {"type": "kafka", "topic": f"{NAME}-counts"},
        "trigger_interval_seconds": 0.5,
    }


def test_a_misspelt_event_time_is_refused_before_a_task_runs(
    stack: ChaosStack, terminal: Terminal, tmp_path: Path
) -> None:
    """1. A topic has records with `at`. 2. A job that reads `AT` is planned, and applied: both fail, and name the field
    that the records have. There is no such job. 3. Spelt as in the records it is applied, and its task runs."""
    bootstrap = stack.plan.kafka_bootstrap
    create_topics(bootstrap, {NAME: 2, f"{NAME}-counts": 1})
    sender = producer(bootstrap)
    for number in range(RECORDS):
        row = {"id": number, "at": f"2026-01-01T00:{number:02}:00Z"}
        sender.produce(NAME, value=json.dumps(row), partition=number % 2)
    assert sender.flush(30) == 0
    file = tmp_path / "jobs" / f"{NAME}.json"
    file.parent.mkdir()

    file.write_text(json.dumps(config("AT")))
    for line in (f"penstock plan {NAME} base {file}", f"penstock apply -f {file.parent}"):
        said = " ".join(terminal.failing(line).split())
        assert f"AT is null in all {RECORDS} sampled records of the topic {NAME}" in said
        assert "no record has this field; they have at" in said
    with stack.client() as client:
        with pytest.raises(NotFound):
            client.get_job(NAME)

        file.write_text(json.dumps(config("at")))
        terminal(f"penstock apply -f {file.parent} --wait")
        (task,) = client.tasks(NAME).tasks
        assert task.error is None
        client.delete_job(NAME)
        wait_until(lambda: NAME not in {job.job for job in client.list_jobs()}, GONE_S, "the job to be forgotten")
