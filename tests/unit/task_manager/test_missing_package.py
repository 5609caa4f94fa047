"""A package that is missing is found before a Spark host is started for it."""

from __future__ import annotations

from pathlib import Path

from penstock.control.masks import Masks
from services.task_manager.decide.effects import Spawn
from services.task_manager.decide.model import HostExit, HostKey
from services.task_manager.hosts.host_pool import HostPool
from services.task_manager.hosts.spark_hosts import SparkHosts
from tests.support.spark.hosts import settings_for


def test_a_missing_package_starts_no_process_and_is_named(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, "127.0.0.1:1")
    wakes: list[None] = []
    pool = HostPool(
        SparkHosts(settings, tmp_path / "hosts", Masks()), lambda host, event: None, lambda: wakes.append(None)
    )
    pool.perform(Spawn("h1", HostKey(package=("rules", "3", ""))))
    folder = settings.packages_root
    missing = f"package: rules 3 is missing: there is no file rules-3.zip in {folder}"
    assert (pool.take_ended(), len(wakes)) == ({"h1": HostExit(missing)}, 1)
    assert not list((tmp_path / "hosts").glob("h1*")), "neither a log nor a folder"
