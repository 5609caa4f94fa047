"""The class archive: made once, mapped by a host's JVM, and no loss where it does not fit."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from penstock.control.process import kill_group
from penstock.local import class_archive as making
from penstock.local.jars import share_dir
from penstock.spark.gateway import start_jvm
from penstock.spark.session import host_settings
from penstock.spark.settings import class_archive
from tests.support.spark.hosts import settings_for


@pytest.fixture(scope="module", autouse=True)
def _made() -> None:
    making.build_class_archive()


def maps_the_archive(folder: Path, jars: Path) -> bool:
    """Whether a JVM that a host would start has the archive of `jars` in its memory."""
    settings = settings_for(folder, "127.0.0.1:9").model_copy(update={"jars": jars})
    settings.spark_local_dir.mkdir(parents=True)
    jvm = start_jvm(host_settings("mapping", settings))
    try:
        return str(class_archive(jars)) in Path(f"/proc/{jvm.process.pid}/maps").read_text()
    finally:
        kill_group(jvm.process)


def test_a_second_run_does_nothing() -> None:
    assert not making.build_class_archive()


def test_the_jvm_of_a_host_maps_it(tmp_path: Path) -> None:
    assert maps_the_archive(tmp_path, share_dir() / "jars")


@pytest.mark.long
def test_a_jvm_with_other_jars_starts_without_it(tmp_path: Path) -> None:
    """As after a change of the Java classes, before the archive is made again."""
    jars = tmp_path / "jars"
    for name in ("spark", "penstock", "archive"):
        shutil.copytree(share_dir() / "jars" / name, jars / name, copy_function=shutil.copy)
    assert class_archive(jars).exists()
    assert not maps_the_archive(tmp_path, jars)
