"""What a copy reads of running tasks stays, whatever the tasks delete."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from penstock.config.keygroups import KeyGroupRange
from penstock.config.model import JobConfig
from penstock.control.errors import BrokenCheckpoint
from penstock.spark.checkpoint import PlannedBatch, commit_text, offsets_text
from penstock.spark.files import LOCAL_FILES
from penstock.spark.redistribute.pins import Pins, remove_pins
from penstock.spark.redistribute.positions import task_specs
from penstock.spark.savepoint.content import chain
from penstock.spark.task import Runtime
from penstock.tasks.redistribution import Layout
from tests.support.store.jobs import make_config

STORES = [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 1}]
OPERATOR = {"operatorInfo": {"operatorName": "stateStoreSave", "operatorId": 0}, "stateStoreInfo": STORES}
BATCH = PlannedBatch({"batchWatermarkMs": 0, "conf": {"spark.sql.shuffle.partitions": "1"}}, ())


class Copied:
    """A job of one task, of which a generation 2 is copied."""

    def __init__(self, root: Path) -> None:
        self.old, self.new = root / "g1/task-0", root / "g2"
        config = JobConfig.model_validate(make_config())
        layout = Layout(generation=1, config=config, ranges=(KeyGroupRange(0, 8),))
        runtime = SimpleNamespace(files=LOCAL_FILES, checkpoint=lambda job, generation, index: str(self.old))
        self.pins = Pins(cast(Runtime, runtime), task_specs("j", layout), str(self.new))

    def run(self, *batches: int, snapshots: tuple[int, ...] = ()) -> None:
        """The task finishes these batches."""
        for batch in batches:
            self.write(f"offsets/{batch}", offsets_text(BATCH))
            self.change(batch + 1, f"changes of {batch + 1}")
            self.write(f"commits/{batch}", commit_text(0))
        for version in snapshots:
            self.write(f"state/0/0/{version}.snapshot", "all")
        self.write("state/0/_metadata/metadata", "v1\n" + json.dumps(OPERATOR))
        self.write("state/0/0/_metadata/schema", "schema")

    def change(self, version: int, text: str) -> None:
        self.write(f"state/0/0/{version}.delta", text)

    def delete(self, *versions: int) -> None:
        """As Spark's maintenance does."""
        for version in versions:
            (self.old / f"state/0/0/{version}.delta").unlink()

    def pinned(self) -> dict[str, str]:
        """The files of the store in the only pins that there are, by name."""
        (store,) = self.new.glob("PINNED-*/task-0/state/0/0")
        return {path.name: path.read_text() for path in store.iterdir() if path.is_file()}

    def write(self, name: str, text: str) -> None:
        """A file in place of another, which goes on where it is linked."""
        (self.old / name).parent.mkdir(parents=True, exist_ok=True)
        (self.old / name).unlink(missing_ok=True)
        (self.old / name).write_text(text)


@pytest.fixture
def copied(tmp_path: Path) -> Copied:
    return Copied(tmp_path)


def test_versions_and_changes_stay_when_the_task_deletes_them(copied: Copied) -> None:
    """1. A version is pinned. 2. Its files go. 3. Later changes are pinned, and go. 4. All is there still."""
    copied.run(0, 1)
    assert [state.version for state in copied.pins.states()] == [2]
    copied.delete(1, 2)
    copied.run(2, 3)
    (state,) = copied.pins.states()
    copied.delete(3, 4)
    assert (state.version, Path(state.checkpoint).parent.parent) == (4, copied.new)
    assert len(chain(copied.pinned(), state.version)) == 4


def test_changes_that_went_before_they_were_pinned_are_an_error(copied: Copied) -> None:
    copied.run(0)
    copied.pins.states()
    copied.run(1, 2)
    copied.delete(2)
    with pytest.raises(BrokenCheckpoint, match=r"2\.delta was deleted"):
        copied.pins.states()


def test_a_batch_that_is_not_finished_may_write_its_changes_anew(copied: Copied) -> None:
    copied.run(0)
    copied.change(2, "not finished")
    copied.pins.states()
    copied.run(1)
    copied.pins.states()
    assert copied.pinned() == {"1.delta": "changes of 1", "2.delta": "changes of 2"}


def test_all_changes_are_pinned_of_a_task_that_begins_during_the_copy(copied: Copied) -> None:
    assert copied.pins.states() == []
    copied.run(0, 1, snapshots=(2,))
    copied.pins.states()
    assert set(copied.pinned()) == {"1.delta", "2.delta", "2.snapshot"}


def test_pins_are_removed_also_those_of_a_copy_that_died(copied: Copied) -> None:
    copied.run(0)
    copied.pins.states()
    copied.pins.remove()
    assert list(copied.new.iterdir()) == []
    copied.pins.states()
    (copied.new / "task-0").mkdir()
    remove_pins(LOCAL_FILES, str(copied.new))
    assert [path.name for path in copied.new.iterdir()] == ["task-0"]
