"""How large the trees of both images are that `slim.sh` leaves (`make test-long`). The base image comes on top."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.tidy.source import REPOSITORY

pytestmark = pytest.mark.long
MEBIBYTE = 2**20
_COPIED = ("libs", "services", "migrations", "deploy")
_NOT_OF_AN_IMAGE = shutil.ignore_patterns(".stamps", "chart", "image-*")


@pytest.fixture
def tree() -> Iterator[Path]:
    """What the Dockerfile has after `make setup`, as further names of the same files."""
    with TemporaryDirectory(prefix="image-", dir=REPOSITORY / ".venv") as folder:
        for name in (".venv", *_COPIED):
            shutil.copytree(
                REPOSITORY / name, Path(folder) / name, copy_function=os.link, symlinks=True, ignore=_NOT_OF_AN_IMAGE
            )
        yield Path(folder)


def slimmed(tree: Path, *images: str) -> float:
    """The size of the tree in MiB after `slim.sh`, once for each name."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
    for image in images:
        subprocess.run([tree / "deploy" / "setup" / "slim.sh", image], check=True, env=environment)
    files = [path for path in tree.rglob("*") if path.is_file() and not path.is_symlink()]
    return sum(path.stat().st_size for path in files) / MEBIBYTE


@pytest.mark.parametrize(
    ("images", "limit", "gone", "kept"),
    [
        (("task_manager",), 1_300, "duckdb", "pyspark"),
        (("task_manager", "services"), 230, "pyspark", "uvicorn"),
    ],
    ids=["task_manager", "services"],
)
def test_an_image_is_no_larger_than_it_was(
    tree: Path, images: tuple[str, ...], limit: int, gone: str, kept: str
) -> None:
    """MiB: 1,173 and 204 were measured, with a tenth of room. The files of this checkout stay."""
    assert slimmed(tree, *images) < limit
    [packages] = (tree / ".venv" / "lib").glob("python3*/site-packages")
    assert (packages / kept).is_dir()
    assert not (packages / gone).exists()
    assert (REPOSITORY / packages.relative_to(tree) / gone).is_dir()
