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
from tests.support.s3.server import s3_server


@pytest.mark.long
def test_a_job_on_s3_is_rescaled_saved_and_restored(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    with s3_server("data") as store:
        login = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key"}
        assert _story(kafka, tmp_path, "s3a://data/checkpoints", store.spark_conf(), [f"{s3_jars()}/*"], login) == ""


@pytest.mark.long
def test_a_job_on_hdfs_is_rescaled_saved_and_restored(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """By the name of its name service, as with several name nodes."""
    with hdfs(tmp_path / "hdfs") as address:
        assert _story(kafka, tmp_path, "hdfs://far/checkpoints", {}, [], name_service(tmp_path / "conf", address)) == ""


def _story(
    kafka: EmbeddedKafka, folder: Path, root: str, conf: Mapping[str, str], jars: list[str], more: Mapping[str, str]
) -> str:
    """What the process of the story says when it fails; nothing when all was right."""
    told = [str(folder), kafka.bootstrap, root, json.dumps(conf), *jars]
    command = [sys.executable, "-m", "tests.support.spark.far_story", *told]
    ended = subprocess.run(command, env={**os.environ, **more}, capture_output=True, text=True, timeout=900)
    return "" if ended.returncode == 0 else ended.stderr[-4000:]
