"""What a restarted process knows of its former incarnations."""

from __future__ import annotations

from pathlib import Path

from services.task_manager.specs.files import IncarnationFile


def test_former_incarnations_are_remembered_likeliest_first(tmp_path: Path) -> None:
    incarnations = IncarnationFile(tmp_path)
    assert incarnations.former() == ()
    incarnations.asking("first")
    incarnations.granted("first")
    incarnations.asking("second")
    assert IncarnationFile(tmp_path).former() == ("second", "first")
    incarnations.granted("second")
    assert IncarnationFile(tmp_path).former() == ("second",)
