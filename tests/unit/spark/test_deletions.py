"""A deletion goes nowhere but below its root, whatever names a path was made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.control.errors import Conflict
from penstock.spark.files import LocalFiles


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a folder, and beside it what must stay; a link in the root leads there."""
    root, other = tmp_path / "root", tmp_path / "other"
    for folder in (root / "job" / "g1", other / "kept", tmp_path / "root2" / "kept"):
        folder.mkdir(parents=True)
        (folder / "file").write_text("x")
    (root / "link").symlink_to(other)
    return root


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/.",
        "/..",
        "/../other",
        "/job/../../other",
        "/job/../..",
        "/job/..",
        "/link/kept",
        "2/kept",
        "/../root",
    ],
)
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_what_is_not_below_the_root_stays(root: Path, scheme: str, path: str) -> None:
    before = sorted(root.parent.rglob("*"))
    with pytest.raises(Conflict, match="not below"):
        LocalFiles(f"{scheme}{root}").delete(f"{scheme}{root}{path}")
    assert sorted(root.parent.rglob("*")) == before


def test_what_is_below_is_deleted(root: Path) -> None:
    files = LocalFiles(f"{root}/")
    files.delete(f"{root}/job/g1/file")
    files.delete(f"file:{root}/job/../job/g1")
    files.delete(f"{root}/job/none")
    assert sorted(path.name for path in root.iterdir()) == ["job", "link"]
    assert not (root / "job" / "g1").exists()


def test_a_root_that_is_a_link_is_where_it_leads(root: Path) -> None:
    alias = root.parent / "alias"
    alias.symlink_to(root)
    LocalFiles(str(alias)).delete(f"{alias}/job")
    assert not (root / "job").exists()
