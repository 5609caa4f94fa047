"""The dependencies in an archive: told apart by their content, and unpacked as they are or not at all."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from penstock.control.errors import BrokenTask
from penstock.spark.bundle import content_of, has_dependencies, require_room, unpack
from penstock.spark.packages import pack

ROOMY = 2**30


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "job.py").write_text("")
    return folder


def archive(path: Path, *files: tuple[str, bytes]) -> Path:
    """Not made by `pack`."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as stream:
        for name, content in files:
            stream.writestr(name, content)
    return path


def test_packages_with_the_same_dependencies_say_so(source: Path, tmp_path: Path) -> None:
    """Whatever else is in them, and in whatever order. A file that takes the place of another is read again."""
    one, two, three = (f"_dependencies/{name}.py" for name in ("one", "two", "three"))
    first, _ = pack(source, "job", "1", tmp_path, [(one, b"1"), (two, b"2")])
    (source / "more.py").write_text("")
    second, _ = pack(source, "job", "2", tmp_path, [(two, b"2"), (one, b"1")])
    assert content_of(first) == content_of(second) is not None
    for others in ([(one, b"2"), (two, b"2")], [(one, b"1"), (three, b"2")], [(one, b"1")]):
        first.unlink()
        pack(source, "job", "1", tmp_path, others)
        assert content_of(first) != content_of(second)
    assert content_of(pack(source, "job", "3", tmp_path)[0]) is None


def test_the_name_of_a_file_is_not_taken_for_two_files(tmp_path: Path) -> None:
    """The digest of one with a line end in its name is not that of two."""
    two = archive(tmp_path / "two.zip", ("_dependencies/a", b"1"), ("_dependencies/b", b"2"))
    second = "d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35"
    one = archive(tmp_path / "one.zip", (f"_dependencies/a\n{second} _dependencies/b", b"1"))
    assert content_of(one) != content_of(two)


@pytest.mark.parametrize("name", ["../penstock/x.py", "/pyspark/x.py", "a/./x.py", "a//x.py", "a/../x.py"])
def test_a_name_that_says_another_path_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BrokenTask, match=r"has an empty part, '.' or '..'") as refused:
        has_dependencies(archive(tmp_path / "job-1.zip", (f"_dependencies/{name}", b"")))
    assert refused.value.extra["rule"] == "package_names"


def test_what_takes_too_much_is_not_unpacked(tmp_path: Path) -> None:
    bomb = archive(tmp_path / "job-1.zip", ("_dependencies/a.txt", bytes(10**6)))
    assert bomb.stat().st_size < 10**4
    require_room(bomb, 10**6)
    for limited in (lambda: require_room(bomb, 10**6 - 1), lambda: unpack(bomb, tmp_path / "out", 10**6 - 1)):
        with pytest.raises(
            BrokenTask, match=r"job-1.zip take 1000000 bytes, more than the 999999 of PENSTOCK_ENV"
        ) as no:
            limited()
        assert no.value.extra["rule"] == "package_size"
    assert not (tmp_path / "out").exists()


def test_what_is_unpacked_is_told_from_what_it_was_before(tmp_path: Path) -> None:
    """The archive is overwritten in place, and has the size and the time of before."""
    package = archive(tmp_path / "job-1.zip", ("_dependencies/a.py", b"mine"))
    before, found = content_of(package), package.stat()
    assert unpack(package, tmp_path / "first", ROOMY) == before
    other = archive(tmp_path / "other.zip", ("_dependencies/a.py", b"evil")).read_bytes()
    with package.open("r+b") as stream:
        stream.write(other)
    os.utime(package, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert package.stat()[:7] == found[:7]
    assert unpack(package, tmp_path / "second", ROOMY) != before
    assert content_of(package) != before


@pytest.mark.parametrize("old", [b"PK\x01\x02", b"mine"])
def test_a_damaged_archive_is_named(tmp_path: Path, old: bytes) -> None:
    """Its directory, or the content of a file."""
    package = tmp_path / "job-1.zip"
    with zipfile.ZipFile(package, "w") as stream:
        stream.writestr("_dependencies/a.py", b"mine")
    package.write_bytes(package.read_bytes().replace(old, b"XXXX"))
    with pytest.raises(BrokenTask, match=r"package: job-1.zip is damaged: ") as refused:
        content_of(package)
    assert refused.value.extra["rule"] == "package_is_zip"
