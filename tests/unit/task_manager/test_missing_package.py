"""A package that is missing is found before a Spark host is started for it; one that has libraries gets a Python."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from penstock.control.masks import Masks
from penstock.control.process import wait_until
from penstock.spark.packages import pack
from services.task_manager.decide.effects import Spawn
from services.task_manager.decide.model import HostExit, HostKey
from services.task_manager.hosts import spark_host
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


def test_a_package_that_can_have_no_environment_starts_a_host_that_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So an analysis names the rule, and a task that starts is broken, not its host."""
    started = Mock()
    monkeypatch.setattr(spark_host, "HostProcess", started)
    settings = settings_for(tmp_path, "127.0.0.1:1")
    (source := tmp_path / "source").mkdir()
    (source / "job.py").write_text("")
    for name, module in (("rules", "manners"), ("wrong", "pyspark")):
        pack(source, name, "1", settings.packages_root, [(f"_dependencies/{module}.py", b"")])
    hosts = SparkHosts(settings, tmp_path / "hosts", Masks())
    for number, name in enumerate(("builtin", "rules", "wrong"), 1):
        hosts.start(f"h{number}", HostKey(package=(name, "1", "")), Mock(), Mock())
    wait_until(lambda: started.call_count == 3, 30, "three hosts")
    given = {call.args[0]: call.args[1].package_environment for call in started.call_args_list}
    assert given == {"h1": None, "h2": next((tmp_path / "environments").iterdir()), "h3": None}
