"""Whether a table or a stream can be read, as the kernel answers an account that is not root's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.config.paths import RULE, is_below
from penstock.control.errors import BrokenTask
from penstock.spark.files import LOCAL_FILES, local_path
from penstock.spark.paths import require_allowed
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


def test_what_links_in_the_folder_lead_to_is_not_told(folder: Path) -> None:
    secret = folder.parent / "secret"
    secret.write_text("of others")
    secret.chmod(0)
    (folder / "there").symlink_to(secret)
    (folder / "gone").symlink_to(folder.parent / "nowhere")
    assert why(secret) is not None
    assert why(folder) is None


@pytest.mark.parametrize("path", ["/.\t./others", "/.\n./others", "/link?x", "/link#x", "/#x", "/?x"])
def test_the_file_that_is_looked_at_is_the_one_that_was_checked(folder: Path, path: str) -> None:
    """`?`, `#`, tabs and line ends are parts of names: what is before them, or without them, is another file."""
    others = folder.parent / "others"
    others.mkdir()
    (others / "hidden").write_text("of others")
    (others / "hidden").chmod(0)
    (folder / "link").symlink_to(others)
    uri = f"file:{folder}{path}"
    assert is_below(uri, [str(folder)])
    assert local_path(uri) == Path(f"{folder}{path}")
    assert local_path(f"file://{folder}{path}") == local_path(uri)
    assert why(uri) is None


def test_both_readings_of_a_quoted_name_must_lead_below_the_roots(folder: Path) -> None:
    (folder / "link").symlink_to(folder.parent)
    (folder / "own link").symlink_to(folder / "1.csv")
    require_allowed("output.path", f"file:{folder}/own%20link", [str(folder)])
    for path in (f"{folder}/link", f"file:{folder}/lin%6b", f"file:{folder}/l%69nk/others"):
        with pytest.raises(BrokenTask) as caught:
            require_allowed("output.path", path, [str(folder)])
        assert caught.value.extra["rule"] == RULE
