"""Whose the folder of a `files` output is: one job's and one life's of it; a task's folder is one checkpoint's."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from penstock.config.csv_options import CsvOutput
from penstock.config.model import FilesOutput
from penstock.control.errors import BrokenTask
from penstock.spark.files import LOCAL_FILES
from penstock.spark.sinks.folder_owner import bind, claim, require_own


class Cell:
    """A cell whose jobs write below one folder."""

    def __init__(self, root: Path, out: Path) -> None:
        self.root, self.out = str(root), str(out)

    def claim(self, job: str, first_generation: int = 1, **output: Any) -> None:
        claim(LOCAL_FILES, LOCAL_FILES, self.root, self._output(**output), job, first_generation)

    def require(self, job: str, generation: int, **output: Any) -> None:
        require_own(LOCAL_FILES, LOCAL_FILES, self.root, self._output(**output), job, generation)

    def _output(self, **output: Any) -> FilesOutput:
        return FilesOutput(path=self.out, **output)


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    return Cell(tmp_path / "checkpoints", tmp_path / "out")


def write(cell: Cell, generation: int, *batches: int, task: int = 0) -> str:
    """The log of a task that has written; its folder."""
    folder = Path(cell.out) / f"g{generation}" / f"task-{task}"
    (folder / "_spark_metadata").mkdir(parents=True, exist_ok=True)
    for batch in batches:
        (folder / "_spark_metadata" / f"{batch}{'.compact' if batch % 10 == 9 else ''}").write_text("v1")
    return str(folder)


def test_a_folder_is_one_jobs_through_all_its_generations(cell: Cell) -> None:
    """1. A job claims it, twice. 2. Its tasks may write in each generation. 3. It writes elsewhere and comes back."""
    cell.claim("j")
    cell.claim("j")
    write(cell, 1, 0)
    cell.require("j", 1)
    cell.require("j", 4)
    cell.claim("j")
    assert sorted(path.name for path in Path(cell.out).iterdir()) == ["_owner", "g1"]


def test_a_folder_with_files_of_another_job_is_refused(cell: Cell) -> None:
    cell.claim("hello")
    write(cell, 1, 0)
    with pytest.raises(
        BrokenTask, match=r"^output\.path: .* has files of the job hello: .*Choose another output\.path"
    ):
        cell.claim("hello2")
    with pytest.raises(BrokenTask, match="has files of the job hello: "):
        cell.require("hello2", 1)


def test_a_job_that_is_made_again_does_not_add_to_the_files_of_the_old_one(cell: Cell) -> None:
    """1. A job ran up to generation 3 and was deleted. 2. The new job begins with 4. 3. The folder is deleted."""
    cell.claim("j")
    write(cell, 1, 0, 1)
    with pytest.raises(BrokenTask, match="has files of a job j that was deleted"):
        cell.claim("j", first_generation=4)
    shutil.rmtree(cell.out)
    cell.claim("j", first_generation=4)
    write(cell, 4, 0)
    cell.require("j", 4)
    with pytest.raises(BrokenTask, match="belongs to a newer job of the name j"):
        cell.require("j", 3)


def test_the_same_job_in_a_cell_that_was_set_up_again_is_another(cell: Cell, tmp_path: Path) -> None:
    cell.claim("j")
    write(cell, 1, 0)
    with pytest.raises(BrokenTask, match="of the job j from another installation"):
        Cell(tmp_path / "others", tmp_path / "out").claim("j")


def test_a_folder_in_which_nobody_has_written_is_free(cell: Cell) -> None:
    cell.claim("typo")
    cell.claim("j")
    with pytest.raises(BrokenTask, match="the job j"):
        cell.require("typo", 1)


def test_a_folder_takes_one_format(cell: Cell) -> None:
    cell.claim("j")
    with pytest.raises(BrokenTask, match=r"^output\.format: .* has parquet files, .* for json"):
        cell.claim("j", format="json")


def test_a_folder_of_csv_takes_one_form(cell: Cell) -> None:
    """That of a folder which an older release claimed is Spark's default. How files are compressed, each says."""
    cell.claim("j", format="csv")
    assert '"format": "csv"' in (Path(cell.out) / "_owner" / "record").read_text()
    cell.claim("j", format="csv", csv=CsvOutput(compression="gzip"))
    for change in ({"csv": CsvOutput(delimiter=";")}, {"header": False}, {"timestamp_format": "epoch_millis"}):
        with pytest.raises(BrokenTask, match=r'^output\.format: .* has csv files, .* for csv \{"'):
            cell.claim("j", format="csv", **change)


def test_one_of_many_claims_at_once_wins(cell: Cell) -> None:
    write(cell, 1)

    def try_to(number: int) -> bool:
        try:
            cell.claim(f"j{number}")
        except BrokenTask:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(try_to, range(8))) == 1
    assert sorted(path.name for path in Path(cell.out).iterdir()) == ["_owner", "g1"]


@pytest.mark.parametrize(
    ("batches", "bound", "planned", "refused"),
    [
        ((), None, None, False),
        ((), "old", None, False),  # Redistributed again, before anything was written.
        ((0, 1), "new", 1, False),
        ((0, 1), None, 1, False),  # Of a release that bound no folders.
        ((0, 1), None, None, True),
        ((0, 1), None, 0, True),
        ((0, 1), "old", 5, True),
        (range(10), None, 8, True),
    ],
)
def test_a_task_s_folder_is_one_checkpoint_s(
    cell: Cell, batches: tuple[int, ...], bound: str | None, planned: int | None, *, refused: bool
) -> None:
    folder = write(cell, 1, *batches)
    if bound is not None:
        (Path(folder) / "_query").write_text(bound)
    if refused:
        with pytest.raises(BrokenTask, match=r"has batches up to \d of another checkpoint"):
            bind(LOCAL_FILES, folder, "new", planned)
    else:
        bind(LOCAL_FILES, folder, "new", planned)
        assert (Path(folder) / "_query").read_text() == "new"
