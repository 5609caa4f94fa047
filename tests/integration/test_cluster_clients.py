"""The clients that Task Managers use, against small servers: fail-over, leader hints, ETags, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse

from penstock.control.errors import Unavailable
from penstock.local.ports import free_port
from penstock.model.reports import TaskReportBatch
from penstock.wire.cluster import Capacity, HeartbeatAnswer, HeartbeatRequest, Snapshot, as_json
from penstock.wire.shard_client import ShardManagerClient
from penstock.wire.task_client import TaskServiceClient
from tests.support.control.serving import serving

REQUEST = HeartbeatRequest(
    container="c1",
    incarnation="1",
    url="http://127.0.0.1:1",
    region="local",
    capacity=Capacity(cpu_cores=1, memory_bytes=1, disk_bytes=1),
    held={3: 4},
)
ANSWER = HeartbeatAnswer(known=True, version=4, shard_count=8, lease_seconds=40, shards={3: 4})


@contextmanager
def shard_manager(answer: object, status: int = 200) -> Iterator[str]:
    app = FastAPI()

    @app.post("/v1/heartbeats")
    def heartbeat() -> Response:
        return JSONResponse(answer, status_code=status)

    with serving(app, free_port()) as url:
        yield url


def test_a_refusal_that_names_the_leader_leads_to_it() -> None:
    with shard_manager(as_json(ANSWER)) as leader, shard_manager({"leader": leader}, 503) as standby:
        client = ShardManagerClient(standby)
        assert client.heartbeat(REQUEST) == ANSWER
        assert client.heartbeat(REQUEST) == ANSWER


def test_another_address_is_asked_when_one_does_not_answer() -> None:
    with shard_manager(as_json(ANSWER)) as url:
        client = ShardManagerClient(f"http://127.0.0.1:{free_port()}, {url}/")
        assert client.heartbeat(REQUEST) == ANSWER


@pytest.mark.parametrize(
    ("answer", "status"),
    [({"detail": "not the leader"}, 503), ({"detail": "what?"}, 422), ({"known": "perhaps"}, 200), ([], 500)],
)
def test_whatever_is_no_good_answer_is_unavailable(answer: object, status: int) -> None:
    with shard_manager(answer, status) as url, pytest.raises(Unavailable):
        ShardManagerClient(url).heartbeat(REQUEST)


def test_two_that_name_each_other_as_leader_are_asked_once_each() -> None:
    first, second = free_port(), free_port()
    urls = [f"http://127.0.0.1:{port}" for port in (first, second)]
    asked = []

    def refuse(me: str, other: str) -> FastAPI:
        app = FastAPI()

        @app.post("/v1/heartbeats")
        def heartbeat() -> Response:
            asked.append(me)
            return JSONResponse({"leader": other}, status_code=503)

        return app

    with (
        serving(refuse(urls[0], urls[1]), first),
        serving(refuse(urls[1], urls[0]), second),
        pytest.raises(Unavailable),
    ):
        ShardManagerClient(",".join(urls)).heartbeat(REQUEST)
    assert asked == urls


def test_specs_and_reports() -> None:
    taken: list[TaskReportBatch] = []
    app = FastAPI()

    @app.get("/v1/specs")
    def specs(after: int = -1, wait_seconds: float = 0, store: str = "", full: bool = False) -> Snapshot:
        number = 7 if full or after < 0 else after + int(wait_seconds)
        whole = full or after < 0
        return Snapshot(full=whole, commit_number=number, shard_count=8, templates=(), store=store, digest=2**127 + 1)

    @app.post("/v1/reports", status_code=204)
    def reports(batch: TaskReportBatch) -> None:
        taken.append(batch)

    batch = TaskReportBatch(container="c1", incarnation="1", commit_number=7, version=4, tasks=())
    with serving(app, free_port()) as url:
        client = TaskServiceClient(url)
        full, again, delta = client.full(), client.full(7, "one"), client.delta(7, 2.0, "one")
        assert [(each.full, each.commit_number, each.store, each.digest) for each in (full, again, delta)] == [
            (True, 7, "", 2**127 + 1),
            (True, 7, "one", 2**127 + 1),
            (False, 9, "one", 2**127 + 1),
        ]
        client.report(batch)
    assert taken == [batch]
