"""The class archive: made once, mapped by the JVM of every host, and no loss where it does not fit."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from penstock.local import class_archive as making
from penstock.local.jars import share_dir
from penstock.spark.settings import SparkSettings, class_archive
from tests.support.spark import READY_SECONDS, Supervisor, running_host, settings_for


@pytest.fixture(scope="module", autouse=True)
def _made() -> None:
    making.build_class_archive()


def maps(supervisor: Supervisor, archive: Path) -> bool:
    """Whether the host's JVM has the archive in its memory."""
    jvm = supervisor.host.ready.result(READY_SECONDS).jvm_pid
    return str(archive) in Path(f"/proc/{jvm}/maps").read_text()


def settings_of(folder: Path, jars: Path) -> SparkSettings:
    return settings_for(folder, "127.0.0.1:9", spark_master="local[1]").model_copy(update={"jars": jars})


def test_a_second_run_does_nothing() -> None:
    assert not making.build_class_archive()


def test_a_host_maps_the_archive(tmp_path: Path) -> None:
    jars = share_dir() / "jars"
    with running_host("mapping", settings_of(tmp_path, jars), tmp_path) as supervisor:
        assert maps(supervisor, class_archive(jars))


def test_a_host_does_without_an_archive_of_other_jars(tmp_path: Path) -> None:
    """As after a change of the Java classes, before the archive is made again."""
    jars = tmp_path / "jars"
    for name in ("spark", "penstock", "archive"):
        shutil.copytree(share_dir() / "jars" / name, jars / name, copy_function=shutil.copy)
    with running_host("other", settings_of(tmp_path, jars), tmp_path) as supervisor:
        assert not maps(supervisor, class_archive(jars))
