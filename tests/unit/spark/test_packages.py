"""Packages: packed the same everywhere, checked before they run."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from penstock.config.model import Package
from penstock.control.errors import BrokenTask, Conflict, InvalidConfig, NotFound
from penstock.spark.packages import delete, digest_of, ensure, pack


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    (source / "flights" / "__pycache__").mkdir(parents=True)
    (source / ".git").mkdir()
    (source / "flights" / "__init__.py").write_text("WORD = 'packed'\n")
    (source / "flights" / "late.py").write_text("def late(x):\n    return x > 15\n")
    (source / "flights" / "table.csv").write_text("a,b\n")
    (source / "flights" / "__pycache__" / "late.cpython-311.pyc").write_bytes(b"cache")
    (source / ".git" / "config.py").write_text("hidden")
    (source / ".env").write_text("SECRET=1")
    return source


def test_packed_folder_holds_code_and_data_only(folder: Path, tmp_path: Path) -> None:
    path, _ = pack(folder, "flights", "1.2", tmp_path / "root")
    assert path == tmp_path / "root" / "flights-1.2.zip"
    assert zipfile.ZipFile(path).namelist() == ["flights/__init__.py", "flights/late.py", "flights/table.csv"]


def test_packed_folder_can_be_imported(folder: Path, tmp_path: Path) -> None:
    path, _ = pack(folder, "flights", "1", tmp_path / "root")
    code = "import sys; sys.path.insert(0, sys.argv[1]); import flights.late; print(flights.WORD, flights.late.late(9))"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "packed False\n"


def test_same_files_give_same_bytes_whatever_their_times_and_modes(folder: Path, tmp_path: Path) -> None:
    _, first = pack(folder, "flights", "1", tmp_path / "one")
    os.utime(folder / "flights" / "late.py", (1, 1))
    (folder / "flights" / "late.py").chmod(0o700)
    _, second = pack(folder, "flights", "1", tmp_path / "two")
    assert first == second
    (folder / "flights" / "late.py").write_text("def late(x):\n    return x > 30\n")
    _, third = pack(folder, "flights", "1", tmp_path / "three")
    assert third != first


def test_a_version_never_changes(folder: Path, tmp_path: Path) -> None:
    path, digest = pack(folder, "flights", "1", tmp_path)
    assert pack(folder, "flights", "1", tmp_path) == (path, digest)
    (folder / "flights" / "late.py").write_text("changed = True\n")
    with pytest.raises(Conflict) as caught:
        pack(folder, "flights", "1", tmp_path)
    assert caught.value.rule == "immutable"
    assert digest_of(path) == digest
    assert [item.name for item in tmp_path.iterdir() if item.name.startswith(".pack-")] == []


@pytest.mark.parametrize(
    ("file", "rule"), [("flights/fast.so", "pure_python"), ("flights/fast.pyd", "pure_python"), (None, "not_empty")]
)
def test_what_cannot_run_from_a_zip_is_refused(folder: Path, tmp_path: Path, file: str | None, rule: str) -> None:
    if file is None:
        folder = tmp_path / "empty"
        folder.mkdir()
    else:
        (folder / file).write_bytes(b"\x7fELF")
    with pytest.raises(InvalidConfig) as caught:
        pack(folder, "flights", "1", tmp_path / "root")
    assert caught.value.rule == rule
    assert not (tmp_path / "root" / "flights-1.zip").exists()


def test_ensure_finds_the_file_and_checks_its_digest(folder: Path, tmp_path: Path) -> None:
    path, digest = pack(folder, "flights", "1", tmp_path)
    assert ensure(Package(name="flights", version="1"), tmp_path) == path
    assert ensure(Package(name="flights", version="1", digest=digest), tmp_path) == path
    assert ensure(Package(), tmp_path) is None


def test_ensure_takes_a_wheel(folder: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "wheel-2.0.zip", "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("wheel/__init__.py", "")
        wheel.writestr("wheel-2.0.dist-info/WHEEL", "Root-Is-Purelib: true")
    assert ensure(Package(name="wheel", version="2.0"), tmp_path) == tmp_path / "wheel-2.0.zip"


@pytest.mark.parametrize(
    ("package", "words"),
    [
        (Package(name="flights", version="2"), "no file flights-2.zip"),
        (Package(name="flights", version="1", digest="sha256:" + "0" * 64), "package.digest: flights-1.zip has"),
        (
            Package.model_construct(name="flights", version="../flights-1", digest=None),
            "package.version: '../flights-1' is no package version",
        ),
        (Package(name="text", version="1"), "text-1.zip is no zip file"),
    ],
)
def test_ensure_says_what_is_wrong(folder: Path, tmp_path: Path, package: Package, words: str) -> None:
    pack(folder, "flights", "1", tmp_path)
    (tmp_path / "text-1.zip").write_text("not a zip")
    with pytest.raises(BrokenTask) as caught:
        ensure(package, tmp_path)
    assert words in caught.value.detail


class Users:
    """Who uses a package, each time that it is asked."""

    def __init__(self, *answers: bool) -> None:
        self._answers = list(answers)
        self.seen: list[bool] = []
        self.path = Path()

    def require_unused(self) -> None:
        self.seen.append(self.path.exists())
        if self._answers.pop(0):
            raise Conflict("in use", field="package", rule="unused")


def test_a_version_that_a_job_takes_while_it_is_deleted_is_put_back(folder: Path, tmp_path: Path) -> None:
    """1. Nobody uses it. 2. It is set aside, and a job uses it now. 3. Later nobody does: it goes."""
    path, _ = pack(folder, "flights", "1", tmp_path / "root")
    taken, unused = Users(False, True), Users(False, False)
    taken.path = unused.path = path
    with pytest.raises(Conflict, match="in use"):
        delete("flights", "1", path.parent, taken.require_unused)
    assert taken.seen == [True, False]
    ensure(Package(name="flights", version="1"), path.parent)
    assert delete("flights", "1", path.parent, unused.require_unused) == path
    assert list(path.parent.iterdir()) == []
    with pytest.raises(NotFound):
        delete("flights", "1", path.parent)


@pytest.mark.parametrize("packed_again", [False, True])
def test_a_deletion_that_ended_in_the_middle_begins_again(folder: Path, tmp_path: Path, packed_again: bool) -> None:
    """1. The process was killed once the file was aside; perhaps it was packed again since. 2. A job uses it."""
    path, digest = pack(folder, "flights", "1", tmp_path / "root")
    path.rename(path.with_name(f".{path.name}.deleted"))
    if packed_again:
        pack(folder, "flights", "1", path.parent)
    with pytest.raises(Conflict, match="in use"):
        delete("flights", "1", path.parent, Users(True).require_unused)
    assert digest_of(path) == digest
    assert list(path.parent.iterdir()) == [path]
    delete("flights", "1", path.parent)
    assert list(path.parent.iterdir()) == []


def test_every_syntax_error_of_a_folder_is_told_with_file_and_line(folder: Path, tmp_path: Path) -> None:
    (folder / "flights" / "late.py").write_text("def late(x):\n    return (\n")
    (folder / "flights" / "early.py").write_text("x = = 1\n")
    with pytest.raises(InvalidConfig, match=r"flights/early\.py, line 1: .*; flights/late\.py, line 2: ") as caught:
        pack(folder, "flights", "1", tmp_path / "root")
    assert caught.value.rule == "syntax"
    assert not (tmp_path / "root" / "flights-1.zip").exists()


def test_a_folder_that_does_not_exist_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="there is no folder") as caught:
        pack(tmp_path / "nofolder", "flights", "1", tmp_path / "root")
    assert caught.value.rule == "folder_exists"
