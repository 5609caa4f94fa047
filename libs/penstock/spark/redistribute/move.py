"""State from the old checkpoints to the new ones, and the proof that it is the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.config.keygroups import KeyGroupRange
from penstock.control.errors import BrokenCheckpoint
from penstock.spark.redistribute.keys import WHOLE, KeyFunction
from penstock.spark.redistribute.new import NewTask
from penstock.spark.redistribute.stores import OldState, StateStoreInfo, join_format_version, partitions_of
from penstock.spark.task import Runtime

Tally = dict[str, list[Any]]


@dataclass(frozen=True)
class Moved:
    """The new stores have all state as their version `version`; `verify` reads them again, if they are not yet.

    `rows`: how many rows there are. `changed`: of a state that was copied before, how many rows changed since; None
    when all rows were moved now.
    """

    version: int
    rows: int = 0
    changed: int | None = None
    verify: Callable[[], None] = lambda: None


class StateMover:
    """All stores of a job, one after the other.

    `old` are of the tasks that have finished a batch; `keys` tells by operator which key group a row is of, and is
    `WHOLE` for all operators or for none. `version`: of the new stores, which begin with version 1.
    """

    def __init__(
        self,
        runtime: Runtime,
        old: Sequence[OldState],
        new: Sequence[NewTask],
        stores: Sequence[StateStoreInfo],
        keys: Mapping[int, KeyFunction],
        version: int = 1,
    ) -> None:
        self._stores = stores
        self._keys = keys
        self._format_version = join_format_version(old[0].metadata)
        jvm: Any = runtime.spark._jvm
        self._java = jvm.io.penstock.state.StateMove(runtime.spark.sparkContext.defaultParallelism)
        # The new tasks' sessions have the settings that state is kept with; their fences play no part in reading.
        reading = new[0].session._jsparkSession
        for state in old:
            part = self._part(state.key_groups)
            self._java.addOld(reading, state.checkpoint, partitions_of(state.metadata), state.batch_id, *part)
        for fresh in new:
            part = self._part(fresh.spec.key_groups)
            threads = fresh.spec.config.threads_per_task
            self._java.addNew(fresh.session._jsparkSession, fresh.checkpoint, threads, version, *part)

    def _part(self, key_groups: KeyGroupRange) -> KeyGroupRange:
        """State without key groups counts as one key group."""
        return KeyGroupRange(0, 1) if WHOLE in self._keys.values() else key_groups

    def move(self) -> dict[StateStoreInfo, Tally]:
        """Copies all rows; by store: rows and checksum by key group.

        Raises Py4JJavaError with `UnmovableStateException` when a row is in a task that does not have its key group.
        """
        return {store: json.loads(self._java.move(*self._described(store))) for store in self._stores}

    def moved(self) -> int:
        """How many rows `move` has moved by now; may be called from another thread."""
        return int(self._java.moved())

    def verify(self, moved: Mapping[StateStoreInfo, Tally]) -> None:
        """Reads the new stores again. Raises BrokenCheckpoint when they are not what was moved."""
        for store in self._stores:
            found = json.loads(self._java.verify(*self._described(store)))
            require_same(store, moved[store], found)

    def tally(self) -> dict[StateStoreInfo, Tally]:
        """Reads only the old stores. Returns rows and checksum by key group, as `move` does."""
        return {store: json.loads(self._java.tally(*self._described(store))) for store in self._stores}

    def has_plain_changes(self) -> bool:
        """Whether `change` can bring the changes of all stores."""
        return all(self._java.hasPlainChanges(self._described(store)[0]) for store in self._stores)

    def change(self, since: Sequence[int]) -> int:
        """Writes what changed in each old task since the versions `since` into the new stores; returns how many rows.

        The changes are read again from what was written. Raises BrokenCheckpoint when they are not the same, and
        Py4JJavaError when the old tasks do not have all files of changes any more.
        """
        changed = {store: json.loads(self._java.change(*self._described(store), list(since))) for store in self._stores}
        for store, tally in changed.items():
            require_same(store, tally, json.loads(self._java.verifyChange(*self._described(store))))
        return rows(changed)

    def _described(self, store: StateStoreInfo) -> tuple[Any, Any]:
        """The layout of a store and its key function, as Java has them."""
        layout = self._java.layout(
            store.operator,
            store.operator_name,
            store.name,
            store.prefix_columns,
            self._format_version,
            store.properties,
            list(store.schema_files),
        )
        keys = self._keys[store.operator]
        return layout, self._java.keys(keys.name, keys.key_groups, list(keys.places))


def require_same(store: StateStoreInfo, moved: Tally, found: Tally) -> None:
    """Raises BrokenCheckpoint unless each key group has the same rows and checksum on both sides. Pure."""
    wrong = sorted(group for group in moved.keys() | found.keys() if moved.get(group) != found.get(group))
    if wrong:
        group = wrong[0]
        raise BrokenCheckpoint(
            f"state cannot be moved because the copy differs in the key groups {', '.join(wrong)} (operator "
            f"{store.operator}, store {store.name}): {group} had {moved.get(group)}, the copy has {found.get(group)} "
            "(rows, checksum)"
        )


def rows(moved: Mapping[StateStoreInfo, Tally]) -> int:
    """How many rows of state there are."""
    return sum(count for tally in moved.values() for count, _ in tally.values())
