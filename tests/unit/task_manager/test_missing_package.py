"""A package that is missing is found before a Spark host is started for it; one that has libraries gets a Python.

Whatever is wrong with a package, the loop goes on and other hosts get what is sent to them."""

from __future__ import annotations

import threading
from pathlib import Path
from unittest.mock import Mock
from zipfile import BadZipFile, ZipFile, is_zipfile

import pytest

from penstock.control.masks import Masks
from penstock.control.process import wait_until
from penstock.spark.channel import Lease
from penstock.spark.packages import digest_of, pack
from penstock.spark.settings import SparkSettings
from services.task_manager.decide.effects import Send, Spawn
from services.task_manager.decide.model import HostExit, HostKey
from services.task_manager.hosts import spark_host, spark_hosts
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


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """What processes are started with, instead of them."""
    started = Mock()
    monkeypatch.setattr(spark_host, "HostProcess", started)
    return started


@pytest.fixture
def settings(tmp_path: Path) -> SparkSettings:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "job.py").write_text("")
    return settings_for(tmp_path, "127.0.0.1:1")


def packed(settings: SparkSettings, name: str, module: str) -> Path:
    source = settings.packages_root.parent / "source"
    return pack(source, name, "1", settings.packages_root, [(f"_dependencies/{module}.py", b"")])[0]


def damage(package: Path) -> None:
    """Its end is as it should be, and what that leads to is not."""
    content = package.read_bytes()
    package.write_bytes(content.replace(b"PK\x01\x02", b"PK\xff\xff"))
    assert is_zipfile(package)
    with pytest.raises(BadZipFile):
        ZipFile(package)


def environments_of(started: Mock, count: int) -> dict[str, Path | None]:
    """Of the processes that were started, by host."""
    wait_until(lambda: started.call_count == count, 30, f"{count} processes")
    return {call.args[0]: call.args[1].package_environment for call in started.call_args_list}


def test_a_package_that_can_have_no_environment_starts_a_host_that_says_why(
    tmp_path: Path, settings: SparkSettings, started: Mock
) -> None:
    """So an analysis names the rule, and a task that starts is broken, not its host."""
    packed(settings, "rules", "manners")
    packed(settings, "wrong", "pyspark")
    damage(packed(settings, "damaged", "manners"))
    hosts = SparkHosts(settings, tmp_path / "hosts", Masks())
    for number, name in enumerate(("builtin", "rules", "wrong", "damaged"), 1):
        hosts.start(f"h{number}", HostKey(package=(name, "1", "")), Mock(), Mock())
    given = environments_of(started, 4)
    assert given == {"h1": None, "h2": next((tmp_path / "environments").iterdir()), "h3": None, "h4": None}


def test_nothing_of_a_package_runs_that_is_not_the_named_one(
    tmp_path: Path, settings: SparkSettings, started: Mock
) -> None:
    """Code of libraries may run when a Python starts, before a task looks at the digest."""
    right = digest_of(packed(settings, "rules", "manners"))
    hosts = SparkHosts(settings, tmp_path / "hosts", Masks())
    hosts.start("h1", HostKey(package=("rules", "1", "sha256:0")), Mock(), Mock())
    assert environments_of(started, 1) == {"h1": None}
    assert not (tmp_path / "environments").exists()
    hosts.start("h2", HostKey(package=("rules", "1", right)), Mock(), Mock())
    assert environments_of(started, 2)["h2"] is not None


def test_the_loop_does_not_wait_for_the_disk_of_packages(
    tmp_path: Path, settings: SparkSettings, started: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. A package is read slowly: its host is there at once, and is killed. 2. The disk answers: no process starts."""
    packed(settings, "rules", "manners")
    answers, on_exit = threading.Event(), Mock()
    monkeypatch.setattr(spark_hosts, "has_dependencies", lambda package: answers.wait(30) and False)
    hosts = SparkHosts(settings, tmp_path / "hosts", Masks())
    host = hosts.start("h1", HostKey(package=("rules", "1", "")), Mock(), on_exit)
    assert host.exit() is None
    host.kill()
    assert host.exit() == HostExit("killed")
    answers.set()
    wait_until(lambda: on_exit.call_count == 2, 30, "the end of the reading")
    started.assert_not_called()


def test_a_host_that_cannot_be_made_is_the_end_of_that_host_alone() -> None:
    """Whatever it is: what is sent to another host arrives."""
    other, hosts = Mock(), Mock()
    other.exit.return_value = None
    hosts.start.side_effect = [other, RuntimeError("of a kind that nobody thought of")]
    pool = HostPool(hosts, Mock(), Mock())
    lease = Lease(id=1, seconds=40.0)
    key = HostKey(package=("rules", "1", ""))
    for effect in (Spawn("h1", key), Spawn("h2", key), Send("h1", lease)):
        pool.perform(effect)
    other.send.assert_called_once_with(lease)
    assert pool.take_ended() == {"h2": HostExit("no process could be made: of a kind that nobody thought of")}
