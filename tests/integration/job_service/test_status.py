"""`GET /v1/status` and `penstock status`, on a real Job Service and store, with a Kafka that is there or is not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from penstock.control.loop import RoundEnd
from penstock.local.kafka import EmbeddedKafka
from penstock.local.ports import free_port
from penstock.store.engine import transaction
from penstock.store.leases import take
from penstock.store.rounds import RoundNotes
from penstock.wire.status import StatusView
from services.job_service.cell_status import NEEDED_LOOPS
from tests.support.cli.shell import lone
from tests.support.job_service.service import RunningJobService, job_service


@pytest.fixture
def service(database_url: str, kafka: EmbeddedKafka) -> Iterator[RunningJobService]:
    """The Task Service is away. The loops have leaders, whose rounds are good; no container is there."""
    task_service = f"http://127.0.0.1:{free_port()}"
    with job_service(database_url, task_service_url=task_service, kafka_bootstrap=kafka.bootstrap) as running:
        for loop in NEEDED_LOOPS:
            with transaction(running.engine) as connection:
                assert take(connection, loop, "leader-1", url="" if "." in loop else running.url, seconds=60.0) == 1
            RoundNotes(running.engine, loop, 30.0, lambda: 0.0).note(RoundEnd(1, 0.1, None))
        yield running


def bad(found: StatusView) -> list[str]:
    return [line.part for line in found.parts if not line.ok]


def test_each_part_is_told_as_it_is(service: RunningJobService) -> None:
    """1. Only the Task Service and the containers are missing. 2. The State Syncer has no round for 80 s."""
    found = service.client().status()
    assert bad(found) == ["service task_service", "containers"]
    known = {line.part: line for line in found.parts}
    assert known["bus"].details["brokers"] == 1
    assert known["loop state_syncer"].details["leader"]["holder"] == "leader-1"
    assert {"service shard_manager", "service state_syncer"} <= known.keys()
    with transaction(service.engine) as connection:
        connection.execute(
            text("UPDATE loop_rounds SET ended_at = ended_at - interval '80 s', good_at = good_at - interval '80 s'")
        )
    [stale] = [line for line in service.client().status().parts if line.part == "loop state_syncer"]
    age = re.search(r"no round for (\d+) s", stale.summary)
    assert age is not None, stale.summary
    assert int(age[1]) >= 80
    assert "restart it" in (stale.advice or "")


def test_the_command_ends_with_1_when_something_is_bad(
    service: RunningJobService, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with lone(monkeypatch, capsys, tmp_path) as shell:
        monkeypatch.setenv("PENSTOCK_URL", service.url)
        monkeypatch.setenv("PENSTOCK_TOKEN", service.admin)
        ran = shell("status")
        assert ran.code == 1
        assert "start it, or restart it if it hangs" in " ".join(ran.out.split())
        answer = json.loads(shell("status", "--json").out)
    assert not answer["ok"]
