"""Environments of packages: each is whole or not there, the platform is behind it, and those in use stay."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.control.errors import BrokenTask
from penstock.spark import environments
from penstock.spark.environments import Environments, Kept, name_of, require_environment, surplus
from penstock.spark.interpreter import command_of, site_of
from penstock.spark.packages import pack
from penstock.spark.settings import SparkSettings

ROOMY = 2**30
MANNERS = "_dependencies/manners.py"


def packed(folder: Path, name: str, word: str) -> Path:
    """A package with a library that has this word, and a pydantic of its own."""
    (source := folder / f"{name}-source").mkdir()
    (source / "job.py").write_text("")
    own = [(MANNERS, f"WORD = {word!r}\n".encode()), ("_dependencies/pydantic.py", b"VERSION = 'own'\n")]
    return pack(source, name, "1", folder / "packages", own)[0]


def said(environment: Path, code: str, **variables: str) -> str:
    command = [*command_of(environment), "-c", code]
    env = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout.strip()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "environments"


def test_a_package_has_a_python_of_its_own_with_the_platform_behind_it(tmp_path: Path, root: Path) -> None:
    """Whatever the variables of the Task Manager and its working folder say."""
    environment = Environments(root, ROOMY, for_all=False).take(packed(tmp_path, "polite", "please"), "h1")
    (tmp_path / "manners.py").write_text("WORD = 'of the path'\n")
    code = "import sys, manners, pydantic, penstock, pyspark; print(manners.WORD, pydantic.VERSION, sys.prefix)"
    home = {"PYTHONPATH": str(tmp_path), "PYTHONUSERBASE": str(tmp_path), "PYTHONHOME": str(tmp_path)}
    assert said(environment, code, **home) == f"please own {environment}"
    assert list(site_of(environment).glob("__pycache__/manners.*.pyc")), "modules are compiled"
    assert not (site_of(environment) / "PLATFORM").exists()


def test_packages_with_the_same_dependencies_share_it(tmp_path: Path, root: Path) -> None:
    kept = Environments(root, ROOMY, for_all=False)
    first, same, other = (
        kept.take(packed(tmp_path, name, word), name) for name, word in (("a", "x"), ("b", "x"), ("c", "y"))
    )
    assert first == same != other
    assert {path.name for path in root.iterdir()} == {first.name, other.name}


def test_hosts_that_ask_at_once_get_one(tmp_path: Path, root: Path) -> None:
    package, kept = packed(tmp_path, "polite", "please"), Environments(root, ROOMY, for_all=False)
    with ThreadPoolExecutor(4) as threads:
        found = set(threads.map(lambda number: kept.take(package, f"h{number}"), range(4)))
    assert found == set(root.iterdir())
    assert len(found) == 1


_DIES = """
import os, sys
from pathlib import Path
from penstock.spark import environments
from penstock.spark.environments import Environments
fill = environments._fill
environments._fill = lambda *given: (fill(*given), os._exit(9))
Environments(Path(sys.argv[2]), 2**30, for_all=False).take(Path(sys.argv[1]), "h1")
"""


def test_one_that_was_half_built_is_never_used(tmp_path: Path, root: Path) -> None:
    """1. The process dies between the build and the rename. 2. The next one builds it again and leaves nothing over."""
    package = packed(tmp_path, "polite", "please")
    died = subprocess.run([sys.executable, "-c", _DIES, str(package), str(root)], check=False)
    assert died.returncode == 9
    (left,) = root.iterdir()
    assert left.name != name_of(package)
    assert (left / "ENVIRONMENT.json").exists(), "all but the rename was done"
    environment = Environments(root, ROOMY, for_all=False).take(package, "h1")
    assert list(root.iterdir()) == [environment]
    assert environment.name == name_of(package)
    assert said(environment, "import manners; print(manners.WORD)") == "please"


def test_a_build_that_fails_leaves_nothing_and_holds_nothing(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, kept = packed(tmp_path, "polite", "please"), Environments(root, 0, for_all=False)

    def full(libraries: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(environments, "_compile", full)
        with pytest.raises(OSError, match="No space left"):
            kept.take(package, "h1")
    assert list(root.iterdir()) == []
    assert kept.take(package, "h2").is_dir()
    kept.release("h2")
    kept.remove_surplus()
    assert list(root.iterdir()) == [], "neither host holds it"


def test_none_is_used_that_was_built_before_the_machine_started(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. The process starts again: it stays. 2. The machine starts again: it goes. 3. So does one that says nothing."""
    package = packed(tmp_path, "polite", "please")
    environment = Environments(root, ROOMY, for_all=False).take(package, "h1")
    Environments(root, ROOMY, for_all=False)
    assert list(root.iterdir()) == [environment]
    (tmp_path / "boot").write_text("another")
    monkeypatch.setattr(environments, "_BOOT", tmp_path / "boot")
    kept = Environments(root, ROOMY, for_all=False)
    assert list(root.iterdir()) == []
    (kept.take(package, "h1") / "ENVIRONMENT.json").write_text("")
    Environments(root, ROOMY, for_all=False)
    assert list(root.iterdir()) == []


def test_the_longest_unused_goes_and_never_one_that_a_host_holds(tmp_path: Path, root: Path) -> None:
    """1. Three, of which each is used, and the limit is for none. 2. All stay. 3. Two hosts end: theirs go."""
    kept = Environments(root, 0, for_all=False)
    first, second, third = (kept.take(packed(tmp_path, name, name), name) for name in ("a", "b", "c"))
    kept.remove_surplus()
    assert set(root.iterdir()) == {first, second, third}
    for host in ("a", "c", "c"):
        kept.release(host)
    kept.remove_surplus()
    assert list(root.iterdir()) == [second]


@pytest.mark.parametrize(
    ("held", "limit", "removed"),
    [
        ((), 60, []),
        ((), 59, ["old"]),
        ((), 50, ["old"]),
        ((), 49, ["old", "middle"]),
        ((), 0, ["old", "middle", "new"]),
        (("old",), 50, ["middle"]),
        (("old", "middle", "new"), 0, []),
    ],
)
def test_what_is_removed(held: Sequence[str], limit: int, removed: list[str]) -> None:
    kept = [Kept("new", 30, 3.0), Kept("old", 10, 1.0), Kept("middle", 20, 2.0)]
    assert surplus(kept, held, limit) == removed


def test_all_accounts_may_read_it_and_none_may_write(tmp_path: Path, root: Path) -> None:
    before = os.umask(0o077)
    try:
        environment = Environments(root, ROOMY, for_all=True).take(packed(tmp_path, "polite", "please"), "h1")
    finally:
        os.umask(before)
    modes = {path.lstat().st_mode & 0o777 for path in (environment, *environment.rglob("*")) if not path.is_symlink()}
    assert modes == {0o755, 0o644}
    assert root.stat().st_mode & 0o001


def test_a_task_runs_only_in_the_environment_that_its_package_has_now(tmp_path: Path, root: Path) -> None:
    package, kept = packed(tmp_path, "polite", "please"), Environments(root, ROOMY, for_all=False)
    environment = kept.take(package, "h1")
    require_environment(package, environment, "local[2]")
    other = kept.take(packed(tmp_path, "rude", "now"), "h2")
    for wrong in (None, other):
        with pytest.raises(BrokenTask, match="this host was started without the dependencies that polite-1"):
            require_environment(package, wrong, "local[2]")
    with zipfile.ZipFile(tmp_path / "plain.zip", "w") as archive:
        archive.writestr("job.py", "")
    require_environment(tmp_path / "plain.zip", None, "spark://m:7077")


def test_no_variable_of_the_task_manager_makes_its_python_find_other_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of other hosts nothing changes."""
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("PYTHONHOME", "/elsewhere")
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    plain = SparkSettings(checkpoint_root="/c")
    assert plain.to_environment()["PYTHONPATH"] == "/elsewhere"
    own = plain.model_copy(update={"package_environment": tmp_path}).to_environment()
    assert own.keys() & {"PYTHONPATH", "PYTHONHOME"} == set()
    kept = {"PYTHONHASHSEED": "0", "PYTHONNOUSERSITE": "1", "PYTHONSAFEPATH": "1"}
    assert {name: own[name] for name in kept} == kept
    assert own["PENSTOCK_PACKAGE_ENVIRONMENT"] == str(tmp_path)
