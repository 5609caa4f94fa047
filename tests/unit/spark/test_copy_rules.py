"""When a copy of state goes on, and which one a redistribution may use."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.keygroups import KeyGroupRange
from penstock.config.model import JobConfig
from penstock.control.errors import BrokenCheckpoint, BrokenTask, Unavailable
from penstock.spark.failures import failure_of
from penstock.spark.redistribute import copy
from penstock.spark.redistribute.copy import FEW_ROWS, MOST_ROUNDS, goes_on, versions_since
from penstock.spark.redistribute.keys import KeyFunction
from penstock.spark.redistribute.manifest import CopyManifest, parse_manifest
from penstock.spark.redistribute.new import _sink_log_name
from penstock.spark.redistribute.stores import OldState, StateStoreInfo
from penstock.tasks.redistribution import CopyRequest, Layout
from tests.support.store.jobs import make_config

MANY = 100 * FEW_ROWS
STORE = StateStoreInfo(0, "stateStoreSave", "default", 0)


def layout(generation: int, **changes: Any) -> Layout:
    config = JobConfig.model_validate(make_config(**changes))
    return Layout(generation=generation, config=config, ranges=(KeyGroupRange(0, 4), KeyGroupRange(4, 8)))


MANIFEST = CopyManifest(
    source=layout(1),
    target=layout(2, task_count=4),
    version=3,
    copied=(5, 0),
    stores=(STORE,),
    keys={0: KeyFunction("spark", 8, (0,))},
    rows=10,
)


@pytest.mark.parametrize(
    ("changed", "more"),
    [
        ([], True),
        ([MANY], True),
        ([FEW_ROWS], False),
        ([MANY, MANY // 2], True),
        ([MANY, MANY // 2 + 1], False),
        ([MANY * 2**MOST_ROUNDS // 2**number for number in range(MOST_ROUNDS)], False),
    ],
)
def test_rounds_go_on_while_much_is_left_and_it_becomes_less(changed: list[int], more: bool) -> None:
    assert goes_on(changed) is more


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"versions": (5, 2)}, None),
        ({"versions": (4, 2)}, "not as far"),
        ({"versions": (5, 2, 1)}, "not as far"),
        ({"source": layout(1, task_count=3)}, "another configuration"),
        ({"target": layout(3, task_count=4)}, "another configuration"),
        ({"stores": (STORE, STORE)}, "other state stores"),
    ],
)
def test_a_copy_fits_only_what_it_was_made_for(changes: dict[str, Any], why: str | None) -> None:
    asked = {"source": MANIFEST.source, "target": MANIFEST.target, "versions": (7, 1), "stores": (STORE,)} | changes
    found = MANIFEST.misfit(**asked)
    assert (found is None) if why is None else (why in str(found))


def test_a_manifest_is_read_as_it_was_written_or_not_at_all() -> None:
    text = MANIFEST.model_dump_json().encode()
    assert parse_manifest(text) == MANIFEST
    assert parse_manifest(text[:-5]) is None


def test_a_task_that_begins_during_the_copy_has_all_its_changes_moved() -> None:
    old = [OldState(f"task-{index}", KeyGroupRange(index, index + 1), 6 + index, {}) for index in range(2)]
    assert versions_since(old[:1], old) == [7, 0]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BrokenCheckpoint("2.delta was deleted"), "retryable"),
        (BrokenTask("the inputs have different keys"), "broken_task"),
    ],
)
def test_files_that_change_under_a_copy_do_not_end_the_rescale(
    error: Exception, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(copy, "_Copy", fail)
    monkeypatch.setattr(copy, "require_sealable", lambda *_: None)
    request = CopyRequest(job="orders", source=layout(1), target=layout(2, task_count=4))
    runtime: Any = None
    with pytest.raises((Unavailable, BrokenTask)) as raised:
        copy.copy_state(runtime, request)
    assert failure_of(raised.value).error_kind == kind


def test_the_sinks_log_has_the_names_that_spark_looks_for() -> None:
    assert [_sink_log_name(number, 3) for number in range(6)] == ["0", "1", "2.compact", "3", "4", "5.compact"]
