"""The note of which version of a table a batch reads, on S3: one that an earlier owner writes late changes nothing."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.config.model import JobConfig
from penstock.control.process import wait_until
from penstock.local.kafka import EmbeddedKafka
from tests.integration.spark.test_s3_checkpoints import PATIENCE_S, commits, on_s3, put_rows, rows_of_delta, start
from tests.support.s3.servers import SERVERS, Hold, Server, server_and_login
from tests.support.spark.hosts import job_config, jvm_pid, make_topic, running_host, task_spec, wait_gone

pytestmark = pytest.mark.long


@pytest.fixture(params=SERVERS)
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    with server_and_login(monkeypatch, request.param, tmp_path / "s3", "data") as server:
        yield server


def joined(topic: str, names: Path) -> JobConfig:
    """Each row with each line that the table has for its word: of the first version one, of the second two."""
    table = {"path": str(names), "format": "csv", "table_schema": "word STRING, name STRING", "refresh_seconds": 0}
    output = {"type": "delta", "path": "s3a://data/out/table"}
    query = {"sql": "SELECT n, name FROM events JOIN names USING (word)"}
    return job_config(topic, 2, output, query=query, tables={"names": table})


def test_a_note_that_an_earlier_owner_writes_late_changes_nothing(
    kafka: EmbeddedKafka, tmp_path: Path, store: Server
) -> None:
    """1. A host has read batch 0 with a table of one line, and finds a second line before batch 1: its note of that is
    held up. 2. The line is gone again. Another host plans batch 1, and is killed before it has written a row. 3. The
    late note arrives; its owner is fenced. 4. A third host repeats batch 1 with the table of one line, and reads batch
    2 with that of two."""
    topic, names = make_topic(kafka.bootstrap, 2), tmp_path / "names"
    names.mkdir()
    (names / "1.csv").write_text("word,name\nw,first\n")
    spec = task_spec("noted", joined(topic, names))
    settings = on_s3(tmp_path, kafka.bootstrap, store)
    settings = settings.model_copy(update={"path_roots": (*settings.path_roots, str(tmp_path))})
    notes = "checkpoints/noted/g1/task-0/tables/"
    put_rows(kafka.bootstrap, topic, 0, 4)
    with running_host("late", settings, tmp_path) as late, running_host("next", settings, tmp_path) as newer:
        start(late, spec, 1)
        wait_until(lambda: len(commits(store, "noted")) == 1, PATIENCE_S, "batch 0")
        note = Hold(store, lambda key: key.startswith(f"{notes}1"))
        (names / "2.csv").write_text("word,name\nw,second\n")
        put_rows(kafka.bootstrap, topic, 4, 8)
        note.wait()
        (names / "2.csv").rename(tmp_path / "2.csv")
        rows = Hold(store, lambda key: key.startswith("out/table/") and key.endswith(".parquet"))
        start(newer, spec, 2)
        rows.wait()
        os.kill(newer.host.pid, signal.SIGKILL)
        wait_gone(jvm_pid(newer))
        rows.let_go()
        (tmp_path / "2.csv").rename(names / "2.csv")
        note.let_go()
        assert late.next_ended().error_kind == "fenced"
    assert {name.partition("-")[0] for name in store.names("data", notes) if name} >= {"1"}
    with running_host("third", settings, tmp_path) as third:
        start(third, spec, 3)
        wait_until(lambda: len(commits(store, "noted")) == 2, PATIENCE_S, "batch 1")
        assert rows_of_delta(store, "out/table") == Counter(range(8))
        put_rows(kafka.bootstrap, topic, 8, 12)
        wait_until(lambda: len(rows_of_delta(store, "out/table")) == 12, PATIENCE_S, "the rest to be read")
        assert third.stop(spec.task_id, finish_pending=True).ok
    assert rows_of_delta(store, "out/table") == Counter(range(8)) + Counter(2 * list(range(8, 12)))
