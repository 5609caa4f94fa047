"""The wheel tells type checkers that `penstock` is typed (PEP 561)."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

from hatchling.builders.wheel import WheelBuilder

from tests.tidy.source import REPOSITORY


def test_the_wheel_has_the_marker_of_types(tmp_path: Path) -> None:
    (built,) = WheelBuilder(str(REPOSITORY)).build(directory=str(tmp_path), versions=["standard"])
    with ZipFile(built) as wheel:
        assert {"penstock/py.typed", "penstock/client/client.py"} <= set(wheel.namelist())
