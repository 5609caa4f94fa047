"""A restore starts from the very savepoint that was asked for, not from another one that has its name by now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.config.model import JobConfig
from penstock.control.errors import BrokenCheckpoint
from penstock.spark.redistribute.positions import SavedGeneration
from penstock.spark.savepoint.take import MANIFEST, savepoint_folder
from penstock.spark.settings import SparkSettings
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import Layout, SavepointName
from penstock.tasks.savepoint import SavepointManifest, SavepointReport
from penstock.tasks.spec import key_group_ranges
from tests.support.store.jobs import make_config

CONFIG = JobConfig.model_validate(make_config())
LAYOUT = Layout(generation=3, config=CONFIG, ranges=key_group_ranges(CONFIG))


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    """Reads local files; no Spark is needed to read a manifest."""
    nobody: Any = None
    settings = SparkSettings(checkpoint_root=str(tmp_path), kafka_bootstrap="127.0.0.1:9", packages_root=tmp_path)
    return Runtime(nobody, settings, "host")


def save(runtime: Runtime, number: int) -> None:
    """Leaves a savepoint `j/nightly` of this number."""
    folder = Path(savepoint_folder(runtime.settings.checkpoint_root, "j", "nightly"))
    folder.mkdir(parents=True, exist_ok=True)
    manifest = SavepointManifest(job="j", number=number, layout=LAYOUT, report=SavepointReport(tasks=(), bytes=0))
    (folder / MANIFEST).write_text(manifest.model_dump_json())


def name(number: int | None) -> SavepointName:
    return SavepointName(job="j", name="nightly", number=number)


@pytest.mark.parametrize("number", [4, None])
def test_the_savepoint_that_was_asked_for_is_taken(runtime: Runtime, number: int | None) -> None:
    """None: recorded by an earlier version, which did not tell the number."""
    with pytest.raises(BrokenCheckpoint, match="there is no savepoint"):
        SavedGeneration(runtime, LAYOUT, name(number))
    save(runtime, 4)
    SavedGeneration(runtime, LAYOUT, name(number)).require_same()


def test_another_savepoint_of_the_same_name_is_refused(runtime: Runtime) -> None:
    """Also when the name is used again while the restore goes on."""
    save(runtime, 4)
    saved = SavedGeneration(runtime, LAYOUT, name(4))
    save(runtime, 5)
    with pytest.raises(BrokenCheckpoint, match="number 5, not 4"):
        saved.require_same()
    with pytest.raises(BrokenCheckpoint, match="number 5, not 4"):
        SavedGeneration(runtime, LAYOUT, name(4))
