"""Dependencies of packages: what pip resolves is in the archive, and a host takes only what fits it."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from penstock.control.errors import BrokenTask, InvalidConfig
from penstock.spark import dependencies
from penstock.spark.dependencies import (
    PLATFORM,
    constraints,
    content_of,
    entries,
    has_dependencies,
    libraries,
    platform,
    require_usable,
    resolved,
    shared_libraries,
)
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
    wheel(wheels, "py4j", version("py4j"), {"py4j/__init__.py": b""})
    wheel(wheels, "frames", "1.0", {"frames.py": b""}, "pyspark>=4", "py4j", "delta-spark")
    wheel(wheels, "old_frames", "1.0", {"old_frames.py": b""}, "pyspark<4")
    wheel(wheels, "disguised", "1.0", {"py4j/__init__.py": b""})
    wheel(wheels, "pydantic", "99.0", {"pydantic.py": b"raise ImportError('of a test')\n"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(wheels))
        patch.setattr(dependencies, "_LOADED", "print('pydantic')")
        patch.setattr(dependencies, "_TRIAL", "import pydantic")
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
    assert libraries(path) == ["manners 2.1", "polite 1.0"]
    assert has_dependencies(path)
    assert not has_dependencies(pack(source, "job", "2", tmp_path)[0])


@pytest.mark.long  # spark/test_environments.py runs such packages
def test_machine_code_is_of_one_python_and_platform(requirements: Path, source: Path, tmp_path: Path) -> None:
    requirements.write_text("quick\n")
    with resolved(requirements) as site:
        kept = dict(entries(site))
    assert kept[PLATFORM].decode() == platform()
    path, _ = pack(source, "job", "1", tmp_path, kept.items())
    require_usable(path, "local[2]")
    other, _ = pack(source, "job", "2", tmp_path, {**kept, PLATFORM: b"cpython-39 win32"}.items())
    with pytest.raises(BrokenTask, match="machine code for cpython-39 win32, and this host is"):
        require_usable(other, "local[2]")


@pytest.mark.parametrize(
    ("required", "said"),
    [
        pytest.param("nowhere\n", "No matching distribution found for nowhere", marks=pytest.mark.long),
        ("behind\n", r"behind 1.0 depends on pydantic<1; The user requested \(constraint\) pydantic>="),
        pytest.param(
            "old_frames\n",
            r"old-frames 1.0 depends on pyspark<4; The user requested \(constraint\) pyspark==",
            marks=pytest.mark.long,
        ),
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


@pytest.mark.parametrize(
    ("required", "rule", "said"),
    [
        ("disguised\n", "shared_library", "py4j: every host has its own, which fits its Spark"),
        pytest.param(
            "pydantic >= 99\n",
            "host_starts",
            "does not start with these libraries: ImportError: of a test",
            marks=pytest.mark.long,
        ),
    ],
)
def test_what_no_host_can_start_with_is_not_packed(requirements: Path, required: str, rule: str, said: str) -> None:
    requirements.write_text(required)
    with pytest.raises(InvalidConfig, match=said) as refused, resolved(requirements):
        pass
    assert (refused.value.field, refused.value.rule) == ("requirements", rule)


def test_a_library_may_require_what_every_host_has(requirements: Path) -> None:
    """In the version that hosts have. It is not packed, though there is a wheel of it."""
    requirements.write_text("frames\npy4j\n")
    with resolved(requirements) as site:
        assert {path.name for path in site.iterdir()} == {"frames.py", "frames-1.0.dist-info"}


def test_versions_are_those_that_the_platform_works_with() -> None:
    """Not the very ones that it has; and nothing is said of libraries that hosts do not load."""
    assert constraints(["penstock", "pydantic"]) == [
        "numpy", "numpy>=1.21", "pandas<3", "pandas>=2.2.0", "pyarrow", "pyarrow>=18.0.0", "pydantic>=2.12"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("pyspark", ["pyspark"]),
        ("pyspark-4.1.0.dist-info", ["pyspark"]),
        ("delta_spark-4.0.0.dist-info", ["delta_spark"]),
        ("penstock.py", ["penstock"]),
        ("py4j.cpython-311-x86_64-linux-gnu.so", ["py4j"]),
        ("pyspark_extension", []),
        ("deltalake", []),
    ],
)
def test_modules_and_distributions_that_a_host_shares_with_spark(name: str, found: list[str]) -> None:
    assert shared_libraries([name, "manners"]) == found


def test_a_host_refuses_what_was_packed_by_other_means(source: Path, tmp_path: Path) -> None:
    path, _ = pack(source, "job", "1", tmp_path, [("_dependencies/pyspark/__init__.py", b"")])
    with pytest.raises(BrokenTask, match=r"job-1.zip: pyspark: every host has its own") as refused:
        require_usable(path, "local[2]")
    assert refused.value.extra["rule"] == "shared_library"
    far, _ = pack(source, "job", "2", tmp_path, [("_dependencies/manners.py", b"")])
    with pytest.raises(BrokenTask, match=r"executors on other machines \(spark://m:7077\) do not get"):
        require_usable(far, "spark://m:7077")


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


def test_the_folder_of_dependencies_is_reserved(source: Path, tmp_path: Path) -> None:
    (source / "_dependencies").mkdir()
    (source / "_dependencies" / "x.py").write_text("")
    with pytest.raises(InvalidConfig, match="is for --requirements") as refused:
        pack(source, "job", "1", tmp_path)
    assert refused.value.rule == "reserved_folder"
