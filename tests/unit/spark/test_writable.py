"""Whether an output can be written, told before a task runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.spark.files import LOCAL_FILES


def test_a_folder_that_is_not_there_is_judged_by_the_one_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LOCAL_FILES.why_not_writable(f"file:{tmp_path}/a/b") is None
    (tmp_path / "file").write_text("")
    assert LOCAL_FILES.why_not_writable(f"{tmp_path}/file/b") == f"{tmp_path}/file is not a folder"
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    assert LOCAL_FILES.why_not_writable(f"{tmp_path}/a/b") == f"the host's account may not write to {tmp_path}"
    assert not (tmp_path / "a").exists()


def test_what_is_below_a_folder_that_may_not_be_entered_is_not_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kernel answers an account that is not root's."""
    closed, exists = tmp_path / "closed", Path.exists
    closed.mkdir()

    def denied_below(path: Path) -> bool:
        if closed in path.parents:
            raise PermissionError(13, "Permission denied", str(path))
        return exists(path)

    monkeypatch.setattr(Path, "exists", denied_below)
    monkeypatch.setattr(os, "access", lambda path, mode: path != closed)
    assert LOCAL_FILES.why_not_writable(f"{closed}/a/b") == f"the host's account may not write to {closed}"
