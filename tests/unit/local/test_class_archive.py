"""Class archives: one that a JVM did not write to its end is refused, and builds at once do not disturb each other."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest

from penstock.local import class_archive as making
from penstock.local.class_archive import is_whole
from penstock.local.jars import java_home
from penstock.spark.settings import class_archive, class_archive_options


def test_an_archive_is_whole_only_if_its_jvm_came_to_its_end(tmp_path: Path) -> None:
    """1. Nothing was written. 2. A JVM writes an archive. 3. Its header is missing, as after a kill: it comes last."""
    archive = tmp_path / "small.new"
    assert not is_whole(archive)
    archive.touch()
    assert not is_whole(archive)
    archive.unlink()
    java = str(java_home() / "bin" / "java")
    subprocess.run([java, f"-XX:ArchiveClassesAtExit={archive}", "-version"], check=True, capture_output=True)
    assert is_whole(archive)
    archive.chmod(0o600)
    with archive.open("r+b") as file:
        file.write(bytes(4096))
    assert not is_whole(archive)


def test_builds_at_once_do_not_disturb_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1. A killed build has left its file. 2. Two begin at once: one waits for the other and finds all made. Only the
    JVMs' part is left out."""
    archives = tmp_path / "jars" / "archive"
    archives.mkdir(parents=True)
    (archives / "host.new").write_text("left")
    trained: list[Path] = []
    together = Barrier(2)

    def write_archives(folder: Path, jars: Path, fresh: Path, step: Any) -> None:
        trained.append(fresh)
        with suppress(BrokenBarrierError):  # the other one does not build meanwhile
            together.wait(0.2)
        for name in ("host.jsa", "kafka.jsa"):
            (fresh / name).write_text("whole")

    monkeypatch.setattr(making, "share_dir", lambda: tmp_path)
    monkeypatch.setattr(making, "kafka_archive", lambda: archives / "kafka.jsa")
    monkeypatch.setattr(making, "_inputs", lambda: "jars")
    monkeypatch.setattr(making, "_train", write_archives)
    with ThreadPoolExecutor(2) as threads:
        done = [threads.submit(making.build_class_archive) for _ in range(2)]
        assert sorted(each.result() for each in done) == [False, True]
    assert len(trained) == 1
    assert [(archives / name).read_text() for name in ("host.jsa", "kafka.jsa")] == ["whole", "whole"]
    assert not trained[0].exists()


def test_an_archive_that_is_missing_is_not_asked_for(tmp_path: Path) -> None:
    """A JVM that is told of a file that does not exist warns on its standard output."""
    archive = class_archive(tmp_path)
    assert class_archive_options(archive) == []
    archive.parent.mkdir()
    archive.touch()
    assert f"-XX:SharedArchiveFile={archive}" in class_archive_options(archive)
