"""`penstock certificates`, on the files of a cell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.identity.process import ProcessIdentity
from penstock.identity.roles import Caller, Role
from tests.support.cli.shell import Shell, lone
from tests.support.identity import VARIABLE, make_cell

C1 = Caller(Role.TASK_MANAGER, "c1")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "identity"))
    return tmp_path / "identity"


@pytest.fixture
def shell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, folder: Path
) -> Iterator[Shell]:
    make_cell(folder)
    with lone(monkeypatch, capsys, tmp_path) as penstock:
        yield penstock


def test_a_process_gets_all_that_it_needs(shell: Shell, folder: Path, tmp_path: Path) -> None:
    """1. Without a folder: beside the authority, and it is listed. 2. With one, which the process needs alone."""
    assert (
        "issued task_manager/c1 for 90 days" in shell("certificates", "issue", "task_manager", "--container", "c1").ok()
    )
    assert "task_manager/c1" in shell("certificates", "list").ok()
    ProcessIdentity(folder, C1, tls=True).require()
    shell("certificates", "issue", "shard_manager", "--host", "manager.example", "--to", str(tmp_path / "mine")).ok()
    ProcessIdentity(tmp_path / "mine", Caller(Role.SHARD_MANAGER), tls=True).require()
    (listed,) = (line for line in shell("certificates", "list").ok().splitlines() if "shard_manager" in line)
    assert "manager.example" in listed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("issue", "task_manager"), "has the name of its container"),
        (("issue", "shard_manager", "--container", "c1"), "no other role has one"),
        (("issue", "task_manager", "--container", "../x"), "not the name of a container"),
        (("rotate", "--add-authority", "--drop-old"), "give one of"),
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(
    shell: Shell, folder: Path, words: tuple[str, ...], said: str
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert said in shell("certificates", *words).refusal()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_everything_is_replaced_step_by_step(shell: Shell, folder: Path) -> None:
    """1. A second authority is trusted. 2. The first cannot go yet. 3. Secret and certificates are new. 4. It goes."""
    shell("certificates", "issue", "task_manager", "--container", "c1").ok()
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    shell("certificates", "rotate", "--add-authority").ok()
    assert "task_manager/c1" in shell("certificates", "rotate", "--drop-old").refusal()
    assert "task_manager/c1" in shell("certificates", "rotate").ok()
    assert "not trusted any more: 1" in shell("certificates", "rotate", "--drop-old").ok()
    assert not [name for name, content in first.items() if (folder / name).read_bytes() == content]
    ProcessIdentity(folder, C1, tls=True).require()


def test_what_is_in_another_folder_is_named_when_it_must_be_issued_again(
    shell: Shell, folder: Path, tmp_path: Path
) -> None:
    """1. It is not renewed, and the command that does it is printed. 2. Its authority is not dropped unless asked."""
    words = ("certificates", "issue", "shard_manager", "--host", "m", "--to", str(tmp_path / "m"))
    shell(*words).ok()
    shell("certificates", "rotate", "--add-authority").ok()
    key = (tmp_path / "m" / "shard_manager.key").read_bytes()
    assert " ".join(words) in shell("certificates", "rotate").ok().replace("\n", "")
    assert (tmp_path / "m" / "shard_manager.key").read_bytes() == key
    assert "--yes" in shell("certificates", "rotate", "--drop-old").refusal()
    assert "not trusted any more: 1" in shell("certificates", "rotate", "--drop-old", "--yes").ok()


def test_without_an_authority_it_says_what_makes_one(shell: Shell, folder: Path) -> None:
    (folder / "authority.crt").unlink()
    for words in (("issue", "shard_manager"), ("list",), ("rotate",), ("rotate", "--drop-old")):
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        assert "run `penstock init`" in shell("certificates", *words).refusal()
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
