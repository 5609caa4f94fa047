"""The jobs of `deploy/examples`, and the settings that two of them need."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from penstock.config.model import JobConfig
from penstock.config.paths import path_problems
from penstock.config.validate import check_merged
from penstock.spark.session import host_settings
from penstock.spark.settings import SparkSettings
from tests.support.kafka.secured import Authority
from tests.tidy.source import REPOSITORY

EXAMPLES = REPOSITORY / "deploy" / "examples"
JOBS = sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.glob("*/*.json"))


def job_of(path: str) -> JobConfig:
    """As `penstock jobs apply` sends it."""
    text = (EXAMPLES / path).read_text().replace("${data_dir}", "/data").replace("${job}", "job")
    return check_merged(json.loads(text))


def settings_in(page: str) -> list[tuple[str, str]]:
    """The names and values in the page's block of settings."""
    block = page.split("```sh\n")[1].split("```")[0]
    found = [line.partition("=") for line in shlex.split(block)]
    return [(name, value) for name, _, value in found]


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
    for name, value in settings_in(page):
        at = str(certificate) if name.endswith("_CA") else str(password) if name.endswith("_FILE") else value
        monkeypatch.setenv(name, at.replace("/run/an.crt", str(certificate)))
    settings = SparkSettings(checkpoint_root="/checkpoints")
    job = job_of("secured/job.json")
    assert (settings.kafka.protocol, settings.kafka.mechanism) == ("SASL_SSL", "SCRAM-SHA-512")
    assert settings.kafka.registry is not None
    assert settings.cluster(job.output.cluster).protocol == "SSL"  # type: ignore[union-attr]


def test_the_settings_of_the_job_on_s3_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those of a process: its hosts have the jars of S3, the login's variables and the endpoint, and the paths
    of the job are below their roots. Outside of the roots they are refused."""
    for name, value in settings_in((EXAMPLES / "s3" / "README.md").read_text()):
        monkeypatch.setenv(name, value)
    settings = SparkSettings(kafka_bootstrap="kafka:9092", jars=Path("/jars"))
    job = job_of("s3/job.json")
    assert settings.checkpoint_root == "s3a://my-bucket/checkpoints"
    assert list(path_problems(job, settings.path_roots)) == []
    assert {each.field for each in path_problems(job, ["s3a://my-bucket/checkpoints"])} == {
        "tables.pages.path",
        "output.path",
    }
    assert set(settings.host_environment) == {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"}
    of_host = host_settings("host", settings)
    assert "/jars/s3/*" in of_host["spark.driver.extraClassPath"]
    assert of_host["spark.hadoop.fs.s3a.endpoint"] == "https://s3.example.com"
    assert of_host["spark.hadoop.fs.s3a.path.style.access"] == "true"
