"""What an analysis says of streams, tables and outputs on a real S3 server: a login without rights, one that the server
does not know, and a bucket that is not there. Each has its field and its rule, before a task runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.config.model import JobConfig
from penstock.spark.settings import SparkSettings
from penstock.tasks.analysis import AnalysisReport, AnalysisRequest
from tests.support.s3.jars import s3_jars
from tests.support.s3.server import conf_of
from tests.support.s3.versitygw import Gateway, gateway
from tests.support.spark.hosts import run_host_task, running_host, settings_for
from tests.support.spark.streams import NO_KAFKA, stream_config

pytestmark = pytest.mark.long
PATIENCE_S = 300.0
READER = {"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "key-of-the-reader"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Gateway]:
    """Its bucket `own` is the reader's, `data` is not."""
    with gateway(tmp_path / "s3", "data", "own") as served:
        for bucket in ("data", "own"):
            served.put(bucket, "events/0.json", '{"k": 1, "v": 1}\n')
            served.put(bucket, "names/1.csv", "k,name\n1,one\n")
        served.add_user(READER, owns="own")
        yield served


def settings_of(folder: Path, server: Gateway) -> SparkSettings:
    s3_jars()
    roots = tuple(f"s3a://{bucket}/" for bucket in ("data", "own", "nowhere", "silent"))
    silent = {"spark.hadoop.fs.s3a.bucket.silent.endpoint": f"http://{NO_KAFKA}"}
    conf = {**conf_of(server.port), **silent}
    return settings_for(folder, NO_KAFKA, path_roots=roots, spark_conf=conf, host_environment=tuple(READER))


def config_of(bucket: str) -> JobConfig:
    stream = {"format": "json", "path": f"s3a://{bucket}/events", "value_schema": "k BIGINT, v BIGINT"}
    table = {"path": f"s3a://{bucket}/names", "format": "csv", "table_schema": "k BIGINT, name STRING"}
    sql = "SELECT v, name FROM events JOIN names USING (k)"
    return stream_config(stream, sql, {"path": f"s3a://{bucket}/out"}, tables={"names": table})


def analysed(host: Any, number: int, bucket: str) -> AnalysisReport:
    request = AnalysisRequest(job="planned", number=number, config=config_of(bucket))
    reply = host.host.send(run_host_task(request)).result(PATIENCE_S)
    assert reply.ok, reply.error
    return AnalysisReport.model_validate(reply.result)


def fields_and_rules(report: AnalysisReport) -> set[tuple[str, str]]:
    return {(problem.field, problem.rule) for problem in report.problems}


def test_rights_and_buckets_that_are_missing_are_named(
    tmp_path: Path, server: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. The reader's own bucket: nothing is wrong. 2. Another's bucket. 3. One that is not there. 4. A server that
    does not answer has said nothing against the job: that is told as not checked."""
    for name, value in READER.items():
        monkeypatch.setenv(name, value)
    with running_host("reader", settings_of(tmp_path, server), tmp_path) as host:
        own = analysed(host, 1, "own")
        assert (own.problems, own.columns) == ((), {"v": "bigint", "name": "string"})
        assert own.unchecked == own.logins == ()
        denied = analysed(host, 2, "data")
        assert fields_and_rules(denied) == {
            ("streams.events.path", "path_readable"),
            ("tables.names.path", "path_readable"),
        }
        assert all("it needs to list, read, write and delete" in problem.detail for problem in denied.problems)
        missing = analysed(host, 3, "nowhere")
        assert fields_and_rules(missing) == {
            ("streams.events.path", "path_exists"),
            ("tables.names.path", "path_exists"),
        }
        assert all("there is no bucket s3a://nowhere" in problem.detail for problem in missing.problems)
        silent = analysed(host, 4, "silent")
        assert silent.problems == silent.logins == ()
        assert [text.partition(": ")[2] for text in silent.unchecked] == 2 * ["s3a://silent does not answer"]


def test_a_login_that_the_server_does_not_know_is_no_fault_of_the_job(
    tmp_path: Path, server: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret that is wrong: it is told with field and rule among the logins, and refuses no write."""
    for name, value in (READER | {"AWS_SECRET_ACCESS_KEY": "another"}).items():
        monkeypatch.setenv(name, value)
    with running_host("wrong", settings_of(tmp_path, server), tmp_path) as host:
        report = analysed(host, 1, "own")
    assert report.problems == ()
    assert {(each.field, each.rule) for each in report.logins} == {
        ("streams.events.path", "store_login"),
        ("tables.names.path", "store_login"),
    }
    assert all("does not know the host's login" in each.detail for each in report.logins)
    assert len(report.unchecked) == 2
