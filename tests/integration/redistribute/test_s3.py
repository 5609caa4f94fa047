"""Rescales and savepoints of jobs whose checkpoints are on S3 (`tests.support.s3.story` has the steps)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.local.kafka import EmbeddedKafka
from tests.support.s3.server import s3_server


@pytest.mark.long
def test_a_job_on_s3_is_rescaled_saved_and_restored(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    with s3_server("data") as store:
        told = [str(tmp_path), kafka.bootstrap, "s3a://data/checkpoints", json.dumps(store.spark_conf())]
        login = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key"}
        command = [sys.executable, "-m", "tests.support.s3.story", *told]
        ended = subprocess.run(command, env={**os.environ, **login}, capture_output=True, text=True, timeout=900)
    assert ended.returncode == 0, ended.stderr[-4000:]
