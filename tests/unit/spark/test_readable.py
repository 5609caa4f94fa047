"""Whether a table or a stream can be read, as the kernel answers an account that is not root's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.spark.files import LOCAL_FILES
from tests.support.other_account import as_nobody, open_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as made:
        (made / "in").mkdir()
        (made / "in" / "1.csv").write_text("k\n1\n")
        yield made / "in"


def why(path: Path | str) -> str | None:
    with as_nobody():
        return LOCAL_FILES.why_not_readable(str(path))


def test_what_may_be_read_or_is_not_there_is_no_problem(folder: Path) -> None:
    assert why(folder) is None
    assert why(f"file:{folder}/1.csv") is None
    assert why(folder / "other" / "deep") is None
    assert why(folder / "1.csv" / "below") is None


def test_a_closed_folder_is_named(folder: Path) -> None:
    folder.chmod(0)
    for path in (folder, folder / "1.csv", folder / "deep" / "er"):
        assert why(path) == f"the host's account may not read {folder}"
    folder.chmod(0o755)


def test_a_closed_file_in_the_folder_is_named(folder: Path) -> None:
    closed = folder / "2.csv"
    closed.write_text("k\n2\n")
    closed.chmod(0)
    assert why(folder) == why(closed) == f"the host's account may not read {closed}"
    closed.rename(folder / "_2.csv")
    assert why(folder) is None


def test_a_closed_log_of_a_delta_table_is_named(folder: Path) -> None:
    log = folder / "_delta_log"
    log.mkdir()
    assert why(folder) is None
    log.chmod(0)
    assert why(folder) == f"the host's account may not read {log}"
    log.chmod(0o755)
