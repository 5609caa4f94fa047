"""Object stores: their jars, what their errors mean, and where no login may stand."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from penstock.spark.session import host_settings
from penstock.spark.settings import SparkSettings
from penstock.spark.stores import STORE_LOGIN, jar_folders, missing_jars, store_problem

NOT_FOUND = "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"


def test_each_scheme_has_its_jars(tmp_path: Path) -> None:
    assert jar_folders(["/data", "file:/data", "hdfs://nn/data", "viewfs:///x"], tmp_path) == []
    paths = ["s3a://b/x", "S3A://c", "gs://b", "abfss://c@a/x", "abfs://c@a/x"]
    assert jar_folders(paths, tmp_path) == [tmp_path / "abfs", tmp_path / "gcs", tmp_path / "s3"]
    (tmp_path / "s3").mkdir()
    assert missing_jars(paths[:2], tmp_path) == ["s3"]
    (tmp_path / "s3" / "hadoop-aws.jar").touch()
    assert missing_jars(paths[:2], tmp_path) == []


def test_a_host_has_the_jars_of_its_roots_alone() -> None:
    for roots in ({"checkpoint_root": "s3a://b/c"}, {"checkpoint_root": "/c", "path_roots": ("s3a://b/out",)}):
        stores = host_settings("h", SparkSettings(jars=Path("/jars"), **roots))
        assert stores["spark.driver.extraClassPath"] == "/jars/spark/*:/jars/penstock/*:/jars/s3/*"
        assert stores["spark.executor.extraClassPath"] == stores["spark.driver.extraClassPath"]
        assert "SharedArchiveFile" not in stores["spark.driver.extraJavaOptions"]
    local = host_settings("h", SparkSettings(jars=Path("/jars"), checkpoint_root="/c"))
    assert local["spark.driver.extraClassPath"] == "/jars/spark/*:/jars/penstock/*"


@pytest.mark.parametrize(
    ("error", "rule", "told"),
    [
        (NOT_FOUND, "store_jars", "run `python -m penstock.local.jars s3`"),
        (
            'org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "s3a"',
            "store_jars",
            "there are no jars",
        ),
        (
            "org.apache.hadoop.fs.s3a.UnknownStoreException: `s3a://b/': The bucket does not exist",
            "path_exists",
            "no bucket s3a://b",
        ),
        (
            "java.nio.file.AccessDeniedException: b: NoAuthWithAWSException: No AWS Credentials",
            STORE_LOGIN,
            "has no login",
        ),
        (
            "java.nio.file.AccessDeniedException: b: (Status Code: 403): InvalidAccessKeyId",
            STORE_LOGIN,
            "does not know the host's",
        ),
        (
            "java.nio.file.AccessDeniedException: b: getFileStatus: (Status Code: 403)",
            "path_readable",
            "list, read, write and delete",
        ),
        ("java.net.ConnectException: Call From x to y: Connection refused", None, "s3a://b does not answer"),
    ],
)
def test_an_error_of_a_store_says_what_to_do(error: str, rule: str | None, told: str) -> None:
    problem = store_problem("s3a://b/ck", Exception(error))
    assert problem is not None
    assert told in problem.detail
    assert problem.extra.get("rule") == rule
    assert problem.detail.startswith("s3a://b/ck: ")


def test_other_errors_and_other_file_systems_are_left_as_they_are() -> None:
    assert store_problem("s3a://b/ck", Exception("java.io.FileNotFoundException: no such file")) is None
    assert store_problem("hdfs://nn/ck", Exception("java.net.ConnectException")) is None


@pytest.mark.parametrize(
    "name",
    [
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.bucket.mine.secret.key",
        "spark.hadoop.fs.s3a.session.token",
        "spark.hadoop.fs.azure.account.key.mine.dfs.core.windows.net",
        "fs.gs.auth.service.account.private.key",
    ],
)
def test_a_login_does_not_stand_where_code_of_jobs_reads_it(name: str) -> None:
    with pytest.raises(ValidationError, match="PENSTOCK_HOST_ENVIRONMENT"):
        SparkSettings(checkpoint_root="/c", spark_conf={name: "x"})
    SparkSettings(checkpoint_root="/c", spark_conf={"spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:1"})
