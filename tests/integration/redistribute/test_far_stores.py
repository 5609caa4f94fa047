"""Rescales and savepoints of jobs whose checkpoints are on S3 or HDFS: by `tests.support.spark.far_story`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.local.kafka import EmbeddedKafka
from tests.support.hdfs import hdfs, name_service
from tests.support.s3.jars import s3_jars
from tests.support.s3.server import LOGIN, conf_of, s3_server
from tests.support.s3.versitygw import gateway

PART = "5M"
"""The least that S3 takes as a part that is not the last one."""
DIGESTS = 8_000
"""Of 64 bytes for each of 60 keys, of which a task has 20: a file of 10 MB."""


@pytest.mark.long
def test_a_job_on_s3_is_rescaled_saved_and_restored(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    with s3_server("data") as store:
        assert _story(kafka, tmp_path, "s3a://data/checkpoints", store.spark_conf(), [f"{s3_jars()}/*"], LOGIN) == ""


@pytest.mark.long
def test_a_job_on_a_real_s3_server_is_rescaled_saved_and_restored(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Signatures are checked. Files of state are above the size from which S3A sends parts: they were sent so, and no
    upload was left half."""
    with gateway(tmp_path / "s3", "data") as server:
        conf = {**conf_of(server.port), "spark.hadoop.fs.s3a.multipart.size": PART}
        jars = [f"{s3_jars()}/*"]
        assert _story(kafka, tmp_path, "s3a://data/checkpoints", conf, jars, LOGIN, digests=DIGESTS) == ""
        done = server.operations
        ended = done["CompleteMultipartUpload"] + done["AbortMultipartUpload"]
        assert done["CreateMultipartUpload"] == ended >= done["CompleteMultipartUpload"] > 0, done
        assert done["UploadPart"] >= 2 * done["CompleteMultipartUpload"], done


@pytest.mark.long
def test_a_job_on_hdfs_is_rescaled_saved_and_restored(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """By the name of its name service, as with several name nodes."""
    with hdfs(tmp_path / "hdfs") as address:
        assert _story(kafka, tmp_path, "hdfs://far/checkpoints", {}, [], name_service(tmp_path / "conf", address)) == ""


def _story(
    kafka: EmbeddedKafka,
    folder: Path,
    root: str,
    conf: Mapping[str, str],
    jars: list[str],
    more: Mapping[str, str],
    digests: int = 1,
) -> str:
    """What the process of the story says when it fails; nothing when all was right."""
    told = [str(folder), kafka.bootstrap, root, json.dumps(conf), str(digests), *jars]
    command = [sys.executable, "-m", "tests.support.spark.far_story", *told]
    ended = subprocess.run(command, env={**os.environ, **more}, capture_output=True, text=True, timeout=900)
    return "" if ended.returncode == 0 else ended.stderr[-4000:]
