"""Tasks whose checkpoints and outputs are on S3: killed in a batch, fenced, and exact; what stops them is told."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from penstock.spark.settings import SparkSettings
from tests.support.s3.jars import s3_jars
from tests.support.s3.server import LOGIN, CutOff, Store
from tests.support.s3.servers import SERVERS, Server, server_and_login
from tests.support.spark.hosts import (
    Supervisor,
    job_config,
    make_topic,
    produce,
    running_host,
    settings_for,
    slow_query,
    task_spec,
)

pytestmark = pytest.mark.long
PATIENCE_S = 300.0


@pytest.fixture
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    """The small server of the tests unless the test asks for another one."""
    with server_and_login(monkeypatch, getattr(request, "param", "small"), tmp_path / "s3", "data") as server:
        yield server


def on_s3(folder: Path, bootstrap: str, store: Server, root: str = "s3a://data/checkpoints") -> SparkSettings:
    """Settings of a host whose checkpoints and outputs are in the bucket `data`."""
    s3_jars()
    conf = store.spark_conf()
    settings = settings_for(
        folder,
        bootstrap,
        path_roots=("s3a://data/out",),
        spark_conf=conf,
        boundary_wait_seconds=0.0,
        host_environment=tuple(LOGIN),
    )
    return settings.model_copy(update={"checkpoint_root": root})


def rows_of_delta(store: Server, table: str) -> Counter[int]:
    """How often each `n` is in a Delta table, by its log."""
    added: dict[str, None] = {}
    objects = store.objects("data")
    for name, content in objects.items():
        if name.startswith(f"{table}/_delta_log/") and name.endswith(".json"):
            for line in content.decode().splitlines():
                if "add" in (action := json.loads(line)):
                    added[action["add"]["path"]] = None
    frames = [pd.read_parquet(io.BytesIO(objects[f"{table}/{path}"])) for path in added]
    return Counter(n for frame in frames for n in frame["n"].tolist())


def commits(store: Server, job: str) -> list[str]:
    return [name for name in store.names("data", f"checkpoints/{job}/g1/task-0/commits/") if name]


def put_rows(bootstrap: str, topic: str, first: int, last: int) -> None:
    produce(bootstrap, topic, [{"n": n, "word": "w"} for n in range(first, last)], 2)


def answer_to_start(supervisor: Supervisor, spec: Any, epoch: int) -> Any:
    """The first start of a host loads the client of S3: on a busy machine that takes a minute."""
    return supervisor.send_start(spec, epoch).result(PATIENCE_S)


def start(supervisor: Supervisor, spec: Any, epoch: int) -> str:
    reply = answer_to_start(supervisor, spec, epoch)
    assert reply.ok, reply.error
    return str(reply.result["token"])


@pytest.mark.parametrize("store", SERVERS, indirect=True)
def test_a_task_is_killed_in_a_batch_and_every_row_counts_once(
    kafka: EmbeddedKafka, tmp_path: Path, store: Server
) -> None:
    """1. A host is killed in mid-batch. 2. Another one repeats the batch. 3. A third host claims the checkpoint while
    the second one's commit is on its way: the commit is refused, and the second ends as fenced. 4. The third one reads
    the rest. The Delta table has every row once."""
    topic = make_topic(kafka.bootstrap, 2)
    config = job_config(topic, 2, {"type": "delta", "path": "s3a://data/out/table"}, **slow_query(tmp_path, 300))
    spec, settings = task_spec("far", config), on_s3(tmp_path, kafka.bootstrap, store)
    with running_host("one", settings, tmp_path) as one:
        assert start(one, spec, 1) == "1.1"
        put_rows(kafka.bootstrap, topic, 0, 8)
        plans = "checkpoints/far/g1/task-0/offsets/"
        wait_until(lambda: "0" in store.names("data", plans), PATIENCE_S, "a batch to be planned")
    with running_host("two", settings, tmp_path) as two, running_host("three", settings, tmp_path) as three:
        assert start(two, spec, 2) == "2.1"
        wait_until(
            lambda: sum(rows_of_delta(store, "out/table").values()) == 8, PATIENCE_S, "the table to have all rows"
        )
        wait_until(lambda: bool(commits(store, "far")), PATIENCE_S, "the batch to be committed")
        claimed: list[str] = []

        def claim_before_commit(method: str, key: str) -> None:
            body_of_commit = method == "PUT" and "FENCE.log" in key and held(store, key)
            if body_of_commit and not claimed:
                claimed.append(key)
                claimed.append(start(three, spec, 3))

        store.before = claim_before_commit
        put_rows(kafka.bootstrap, topic, 8, 16)
        assert two.next_ended().error_kind == "fenced"
        store.before = lambda method, key: None
        assert claimed[1] == "3.1"
        wait_until(lambda: len(rows_of_delta(store, "out/table")) == 16, PATIENCE_S, "the rest to be read")
        stopped = three.stop(spec.task_id, finish_pending=True)
        assert stopped.ok, stopped.error
        assert stopped.result["clean"]
    assert rows_of_delta(store, "out/table") == Counter(range(16))
    assert all(value not in json.dumps(settings.spark_conf) for value in LOGIN.values())


def held(store: Server, key: str) -> bool:
    """Whether the next slot is for a commit: a plan has one more entry than there are commits."""
    folder = key.partition("FENCE.log")[0]
    plans, done = (store.names("data", f"{folder}{log}/") for log in ("offsets", "commits"))
    return len([name for name in plans if name]) > len([name for name in done if name])


def test_what_is_wrong_with_a_store_is_told(kafka: EmbeddedKafka, tmp_path: Path, store: Store) -> None:
    """1. A bucket that is not there. 2. A login without rights. Each says what to do, and a retry helps."""
    spec = task_spec("far", job_config("any", 2, {"type": "files", "path": "s3a://data/out/files"}))
    with running_host("lost", on_s3(tmp_path, kafka.bootstrap, store, "s3a://nowhere/c"), tmp_path) as supervisor:
        missing = answer_to_start(supervisor, spec, 1)
        assert "there is no bucket s3a://nowhere: make it" in str(missing.error)
        assert missing.error_kind == "retryable"
        store.buckets["nowhere"] = {}
        store.denied = True
        denied = answer_to_start(supervisor, spec, 1)
        assert "it needs to list, read, write and delete" in str(denied.error)
        store.denied = False
        assert "any" in str(answer_to_start(supervisor, spec, 1).error)


def test_a_request_that_is_cut_off_is_tried_again(kafka: EmbeddedKafka, tmp_path: Path, store: Server) -> None:
    """A task of files: the answer to every fifth request is lost, and every row is there once."""
    topic = make_topic(kafka.bootstrap, 2)
    spec = task_spec("cut", job_config(topic, 2, {"type": "delta", "path": "s3a://data/out/cut"}))
    count = iter(range(10_000))

    def lose(method: str, key: str) -> None:
        if next(count) % 5 == 4:
            raise CutOff

    with running_host("cut", on_s3(tmp_path, kafka.bootstrap, store), tmp_path) as supervisor:
        store.after = lose
        start(supervisor, spec, 1)
        for first in range(0, 40, 8):
            put_rows(kafka.bootstrap, topic, first, first + 8)
            last = first + 8
            wait_until(
                lambda last=last: len(rows_of_delta(store, "out/cut")) == last, PATIENCE_S, "the rows to be written"
            )
        store.after = lambda method, key: None
        assert supervisor.stop(spec.task_id, finish_pending=True).ok
    assert rows_of_delta(store, "out/cut") == Counter(range(40))
