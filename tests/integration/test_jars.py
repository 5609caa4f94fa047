"""The JVM pieces are the pinned ones, are built once, and a missing one is named."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from penstock.control.errors import TerminalError
from penstock.local import jars
from penstock.local.web import unpack, web_files


@pytest.fixture
def empty_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A share folder with nothing in it, set as the one to use."""
    monkeypatch.setenv("PENSTOCK_SHARE", str(tmp_path))
    return tmp_path


def test_a_second_run_does_nothing() -> None:
    assert not jars.fetch_jars()
    jars.build_penstock_jar()
    assert not jars.build_penstock_jar()


def test_spark_gets_the_connector_delta_and_the_own_classes() -> None:
    jars.build_penstock_jar()
    names = {path.name for path in jars.spark_jars()}
    assert {"spark-sql-kafka-0-10_2.13-4.2.0.jar", "delta-spark_4.2_2.13-4.4.0.jar", "penstock.jar"} <= names


def test_the_fetched_jars_are_those_of_the_digests() -> None:
    folder = jars.share_dir() / "jars"
    jars.verify_jars(folder)
    assert (folder / "kafka").is_dir()


def test_a_changed_a_missing_and_a_strange_jar_are_named(tmp_path: Path) -> None:
    shutil.copytree(jars.share_dir() / "jars" / "spark", tmp_path / "spark")
    changed, missing, *_ = sorted((tmp_path / "spark").glob("*.jar"))
    changed.write_bytes(b"other")
    missing.unlink()
    (tmp_path / "spark" / "strange.jar").write_bytes(b"")
    with pytest.raises(TerminalError) as caught:
        jars.verify_jars(tmp_path)
    assert all(name in caught.value.detail for name in (changed.name, missing.name, "strange.jar"))


@pytest.mark.usefixtures("empty_share")
def test_jars_that_were_not_fetched_say_what_to_run() -> None:
    with pytest.raises(TerminalError, match="make setup"):
        jars.spark_jars()
    with pytest.raises(TerminalError, match="make setup"):
        jars.kafka_classpath()


def test_jars_of_stores_are_fetched_by_known_names_only(empty_share: Path) -> None:
    with pytest.raises(TerminalError, match="no jars for s4; there are for s3, gcs, abfs"):
        jars.fetch_store_jars(["s3", "s4"])
    assert list(empty_share.iterdir()) == []


def test_a_java_home_that_is_not_a_jdk_17_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "javac").touch()
    (tmp_path / "release").write_text('JAVA_VERSION="21.0.1"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert jars.java_home() != tmp_path
    (tmp_path / "release").write_text('JAVA_VERSION="17.0.9"\n')
    assert jars.java_home() == tmp_path


def test_the_pages_scripts_are_unpacked_with_their_licences(empty_share: Path) -> None:
    """1. Without them the console says what to run. 2. All come out of the jars. 3. A second run leaves them alone."""
    with pytest.raises(TerminalError, match=r"htmx\.min\.js, sse\.js, .* run `make setup`"):
        web_files()
    shutil.copytree(Path(sys.prefix) / "share/penstock/jars/web", empty_share / "jars" / "web")
    unpack(empty_share)
    before = {path.name: path.stat().st_ino for path in web_files()}
    assert b"htmx" in (empty_share / "web" / "htmx.min.js").read_bytes()
    assert len(list((empty_share / "web").glob("LICENSE-*"))) == 3
    unpack(empty_share)
    assert {path.name: path.stat().st_ino for path in web_files()} == before
