"""Dependencies of packages: what pip resolves is in the archive, and a host takes only what fits it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.control.errors import BrokenTask, InvalidConfig
from penstock.spark import dependencies
from penstock.spark.dependencies import PLATFORM, entries, loaded, other_versions, platform, resolved, unpack
from penstock.spark.packages import digest_of, pack
from tests.support.spark.wheels import machine_code, wheel


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """`polite` needs `manners`; both are in a folder, and no index is asked."""
    wheels = tmp_path_factory.mktemp("wheels")
    wheel(wheels, "polite", "1.0", {"polite.py": b"from manners import WORD\n"}, "manners>=2")
    wheel(wheels, "manners", "2.1", {"manners/__init__.py": b"WORD = 'please'\n", "manners/words.txt": b"thanks\n"})
    name, code = machine_code()
    wheel(wheels, "quick", "1.0", {"quick/__init__.py": b"", f"quick/{name}": code})
    wheel(wheels, "behind", "1.0", {"behind.py": b""}, "pydantic<1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(wheels))
        patch.setattr(dependencies, "_LOADED", "import pydantic; print(f'pydantic=={pydantic.VERSION}')")
        yield wheels


@pytest.fixture
def requirements(wheels: Path, tmp_path: Path) -> Path:
    file = tmp_path / "requirements.txt"
    file.write_text("polite\n")
    return file


@pytest.fixture(scope="module")
def site(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What pip resolves for `polite`, once for all tests."""
    file = tmp_path_factory.mktemp("polite") / "requirements.txt"
    file.write_text("polite\n")
    with resolved(file) as site:
        yield site


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "job.py").write_text("from polite import WORD\n")
    return folder


def test_what_is_required_is_packed_with_what_that_requires(
    requirements: Path, site: Path, source: Path, tmp_path: Path
) -> None:
    """The same bytes twice, and nothing of the machine; a process with both on its path can import them."""
    with resolved(requirements) as again:
        path, _ = pack(source, "job", "1", tmp_path / "again", entries(again))
    assert digest_of(pack(source, "job", "1", tmp_path / "first", entries(site))[0]) == digest_of(path)
    names = set(zipfile.ZipFile(path).namelist())
    assert {"job.py", "_dependencies/polite.py", "_dependencies/manners/words.txt"} < names
    assert {name for name in names if name.endswith(("RECORD", "INSTALLER", ".pyc")) or name == PLATFORM} == set()
    found = unpack(path, tmp_path)
    assert found is not None
    code = "import sys; sys.path[:0] = sys.argv[1:]; import job; print(job.WORD)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), str(found)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "please\n"
    assert unpack(path, tmp_path) == found


@pytest.mark.long  # spark/test_host.py runs such a package
def test_machine_code_is_of_one_python_and_platform(requirements: Path, source: Path, tmp_path: Path) -> None:
    requirements.write_text("quick\n")
    with resolved(requirements) as site:
        kept = dict(entries(site))
    assert kept[PLATFORM].decode() == platform()
    path, _ = pack(source, "job", "1", tmp_path, kept.items())
    assert unpack(path, tmp_path) is not None
    other, _ = pack(source, "job", "2", tmp_path, {**kept, PLATFORM: b"cpython-39 win32"}.items())
    with pytest.raises(BrokenTask, match="machine code for cpython-39 win32, and this host is"):
        unpack(other, tmp_path)


@pytest.mark.parametrize(
    ("required", "said"),
    [
        pytest.param("nowhere\n", "No matching distribution found for nowhere", marks=pytest.mark.long),
        ("behind\n", r"behind 1.0 depends on pydantic<1; The user requested \(constraint\) pydantic=="),
        pytest.param("polite >= 7\n", "No matching distribution found for polite>=7", marks=pytest.mark.long),
    ],
)
def test_what_cannot_be_resolved_is_refused_with_what_pip_says(requirements: Path, required: str, said: str) -> None:
    """Also what a host cannot have, since it uses another version itself."""
    requirements.write_text(required)
    with pytest.raises(InvalidConfig, match=said) as refused, resolved(requirements):
        pass
    assert (refused.value.field, refused.value.rule) == ("requirements", "resolvable")


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="there is no file"), resolved(tmp_path / "none.txt"):
        pass


def test_a_host_takes_no_other_version_of_what_it_has_loaded(site: Path) -> None:
    assert list(other_versions(site, loaded())) == []
    assert list(other_versions(site, {"manners": "2.1", "other": "1"})) == []
    assert list(other_versions(site, {"manners": "3"})) == ["manners 2.1, where this host has 3"]


def test_what_a_host_refuses_leaves_nothing_on_its_disk(
    site: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that cannot run is started again and again."""
    path, _ = pack(source, "job", "1", tmp_path, entries(site))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(dependencies, "loaded", lambda: {"manners": "3"})
    for _ in range(2):
        with pytest.raises(BrokenTask, match=r"manners 2.1, where this host has 3: pack it again"):
            unpack(path, scratch)
    assert list(scratch.iterdir()) == []


def test_tasks_that_ask_at_once_get_one_folder(site: Path, source: Path, tmp_path: Path) -> None:
    path, _ = pack(source, "job", "1", tmp_path, entries(site))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with ThreadPoolExecutor(4) as threads:
        found = set(threads.map(lambda _: unpack(path, scratch), range(4)))
    assert [each.parent for each in found if each is not None] == list(scratch.iterdir())


def test_the_folder_of_dependencies_is_reserved(source: Path, tmp_path: Path) -> None:
    (source / "_dependencies").mkdir()
    (source / "_dependencies" / "x.py").write_text("")
    with pytest.raises(InvalidConfig, match="is for --requirements") as refused:
        pack(source, "job", "1", tmp_path)
    assert refused.value.rule == "reserved_folder"
