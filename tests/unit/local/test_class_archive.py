"""The check of a new class archive: one that a JVM did not write to its end is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

from penstock.local.class_archive import is_whole
from penstock.local.jars import java_home


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
