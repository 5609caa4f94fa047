"""Takes and removals of one savepoint's name by two hosts, of which one hangs and goes on later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.control.errors import Conflict, Fenced
from penstock.spark.collect import collect
from penstock.spark.files import Files, LocalFiles
from penstock.spark.savepoint.take import MANIFEST, read_manifest, remove, savepoint_folder, take
from penstock.spark.settings import SparkSettings
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import GenerationRemoval
from penstock.tasks.savepoint import SavepointRemoval, SavepointReport, SavepointRequest
from tests.support.task_manager.world import layout

JOB = "flights"


class HangingFiles(LocalFiles):
    """Hangs in one method, before the first call that concerns `path`; `meanwhile` is what others do until it goes
    on."""

    def __init__(self, method: str, path: str, meanwhile: Callable[[], object]) -> None:
        super().__init__()
        self.method, self.path, self.meanwhile = method, path, [meanwhile]

    def write(self, path: str, content: bytes) -> None:
        self._hang("write", path)
        super().write(path, content)

    def publish(self, folder: str, target: str) -> bool:
        self._hang("publish", f"{folder} {target}")
        return super().publish(folder, target)

    def delete(self, path: str) -> None:
        self._hang("delete", path)
        super().delete(path)

    def _hang(self, method: str, path: str) -> None:
        if method == self.method and self.path in path and self.meanwhile:
            self.meanwhile.pop()()


class Host(Runtime):
    """A host with the files of the test, and no Spark: savepoints of tasks without a finished batch need none."""

    def __init__(self, root: Path, files: Files | None = None, **more: Any) -> None:
        super().__init__(cast(Any, None), SparkSettings(checkpoint_root=str(root)), "host", **more)
        self.__dict__["files"] = files or LocalFiles()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Checkpoints of two tasks that have begun."""
    for index in range(2):
        note = tmp_path / JOB / f"g1/task-{index}/sources/0/0"
        note.parent.mkdir(parents=True)
        note.write_text("v1")
    return tmp_path


def request(number: int) -> SavepointRequest:
    return SavepointRequest(job=JOB, name="nightly", number=number, layout=layout(1))


def removal(number: int) -> SavepointRemoval:
    return SavepointRemoval(job=JOB, name="nightly", number=number)


def folder(root: Path) -> Path:
    return Path(savepoint_folder(str(root), JOB, "nightly"))


def assert_whole(root: Path, number: int, report: SavepointReport) -> None:
    """The savepoint of this number has the name, with this report and all files, and nothing else is left."""
    found = read_manifest(str(folder(root)), LocalFiles())
    assert found is not None
    assert (found.number, found.report) == (number, report)
    assert all((folder(root) / f"task-{index}/sources/0/0").read_text() for index in range(2))
    assert [path.name for path in folder(root).parent.iterdir()] == ["nightly"]


def test_a_late_take_leaves_a_newer_savepoint_of_its_name_alone(root: Path) -> None:
    """1. A host hangs before it gives number 5 its name. 2. Number 5 is removed and 7 is taken. 3. The host goes on."""
    taken: list[SavepointReport] = []

    def meanwhile() -> None:
        remove(Host(root), removal(5))
        taken.append(take(Host(root), request(7)))

    with pytest.raises(Fenced):
        take(Host(root, HangingFiles("write", MANIFEST, meanwhile)), request(5))
    assert_whole(root, 7, taken[0])


def test_a_late_take_answers_with_the_savepoint_that_another_host_took(root: Path) -> None:
    """1. A host hangs before it gives number 5 its name. 2. Another host, asked for the same, takes it. 3. The first
    one goes on: the folder is still that of the other one's report."""
    taken: list[SavepointReport] = []
    before: list[int] = []

    def meanwhile() -> None:
        # The other host sees further files, so that the two reports differ.
        for index in range(2):
            (root / JOB / f"g1/task-{index}/metadata").write_text("{}")
        taken.append(take(Host(root), request(5)))
        before.append(folder(root).stat().st_ino)

    assert [take(Host(root, HangingFiles("write", MANIFEST, meanwhile)), request(5))] == taken
    assert [folder(root).stat().st_ino] == before
    assert_whole(root, 5, taken[0])


@pytest.mark.parametrize("late", [5, 6])
def test_a_host_that_hangs_between_its_look_and_the_change_of_the_name_takes_it_from_nobody(
    root: Path, late: int
) -> None:
    """1. Number 4 has the name. 2. A host that is to take 5, or to remove it, has looked and hangs. 3. Meanwhile 4 is
    removed and 7 taken. 4. The host goes on: 7 stays."""
    take(Host(root), request(4))
    taken: list[SavepointReport] = []

    def meanwhile() -> None:
        remove(Host(root), removal(4))
        taken.append(take(Host(root), request(7)))

    host = Host(root, HangingFiles("publish", f"{folder(root)} ", meanwhile))
    with pytest.raises(Fenced):
        take(host, request(5)) if late == 5 else remove(host, removal(6))
    assert_whole(root, 7, taken[0])


def test_a_late_removal_leaves_the_attempts_of_a_newer_savepoint_alone(root: Path) -> None:
    """1. A host copies for number 7. 2. A late removal of number 5 ends meanwhile. 3. Number 7 is whole."""
    host = Host(root, HangingFiles("write", MANIFEST, lambda: remove(Host(root), removal(5))))
    assert_whole(root, 7, take(host, request(7)))


def test_a_take_whose_copies_were_removed_publishes_nothing(root: Path) -> None:
    """1. A host copies the first task for number 5. 2. Number 5 is removed. 3. The host goes on."""
    copies = HangingFiles("delete", "/task-1", lambda: remove(Host(root), removal(5)))
    with pytest.raises(Fenced, match="being removed"):
        take(Host(root, copies), request(5))
    assert list(folder(root).parent.iterdir()) == []


def test_an_older_savepoint_gives_up_its_name_whole_and_leaves_nothing(root: Path) -> None:
    take(Host(root), request(4))
    assert_whole(root, 5, take(Host(root), request(5)))


def cancelled_after(calls: int) -> Callable[[], None]:
    left = [None] * calls

    def require_wanted() -> None:
        if not left:
            raise Conflict("cancelled", field="key", rule="not_cancelled")
        left.pop()

    return require_wanted


def test_a_take_that_was_cancelled_gives_no_name(root: Path) -> None:
    with pytest.raises(Conflict):
        take(Host(root, before_claim=cancelled_after(0)), request(5))
    assert list(folder(root).parent.iterdir()) == []


def test_a_removal_that_is_cancelled_stops_between_folders(root: Path) -> None:
    """1. A savepoint's removal is cancelled when it has begun: no savepoint, but not all is gone. 2. It is asked for
    again: all is gone. 3. So it is with a generation."""
    take(Host(root), request(5))
    with pytest.raises(Conflict):
        remove(Host(root, before_claim=cancelled_after(2)), removal(5))
    (left,) = folder(root).parent.iterdir()
    assert left != folder(root)
    assert len(list(left.iterdir())) == 2
    remove(Host(root), removal(5))
    assert list(folder(root).parent.iterdir()) == []

    gone = GenerationRemoval(job=JOB, generation=1, forgotten=True)
    with pytest.raises(Conflict):
        collect(Host(root, before_claim=cancelled_after(1)), gone)
    tasks = root / JOB / "g1"
    assert [path.name for path in sorted(tasks.glob("task-*"))] == ["task-1"]
    collect(Host(root), gone)
    assert list(tasks.glob("task-*")) == []
