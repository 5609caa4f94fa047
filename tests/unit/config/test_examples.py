"""The jobs of `deploy/examples`, and the settings that one of them needs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from penstock.config.model import JobConfig
from penstock.config.validate import check_merged
from penstock.spark.settings import SparkSettings
from tests.support.kafka.secured import Authority
from tests.tidy.source import REPOSITORY

EXAMPLES = REPOSITORY / "deploy" / "examples"
JOBS = sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.glob("*/*.json"))


def job_of(path: str) -> JobConfig:
    """As `penstock jobs apply` sends it."""
    text = (EXAMPLES / path).read_text().replace("${data_dir}", "/data").replace("${job}", "job")
    return check_merged(json.loads(text))


@pytest.mark.parametrize("path", JOBS)
def test_a_job_keeps_all_rules(path: str) -> None:
    assert job_of(path).outputs.keys() >= {"output"}


def test_the_settings_of_the_secured_job_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With files in the places of those that the page names they are those of a process, and have the job's cluster."""
    page = (EXAMPLES / "secured" / "README.md").read_text()
    certificate = tmp_path / "ca.crt"
    certificate.write_text(Authority().certificate)
    password = tmp_path / "password"
    password.write_text("a-password")
    block = page.split("```sh\n")[1].split("```")[0]
    for line in shlex.split(block):
        name, _, value = line.partition("=")
        at = str(certificate) if name.endswith("_CA") else str(password) if name.endswith("_FILE") else value
        monkeypatch.setenv(name, at.replace("/run/an.crt", str(certificate)))
    settings = SparkSettings(checkpoint_root="/checkpoints")
    job = job_of("secured/job.json")
    assert (settings.kafka.protocol, settings.kafka.mechanism) == ("SASL_SSL", "SCRAM-SHA-512")
    assert settings.kafka.registry is not None
    assert settings.cluster(job.output.cluster).protocol == "SSL"  # type: ignore[union-attr]
