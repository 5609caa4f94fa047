"""Bounds of key-group ranges count only where they move key groups."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.classify import NO_DIFFERENCE, classify
from penstock.config.declare import ChangeKind
from penstock.config.merge import LayerConfig
from penstock.config.validate import check_layer, check_merged
from services.job_service.explain import explain, why_ignored
from tests.support.config.jobs import job


def split(task_count: int, bounds: list[int] | None) -> dict[str, Any]:
    """A job of eight key groups."""
    return job({"task_count": task_count, "key_group_bounds": bounds})


@pytest.mark.parametrize(
    ("task_count", "bounds", "merged"),
    [
        pytest.param(3, [1, 2], (1, 2), id="in force"),
        pytest.param(4, [1, 2], None, id="another layer has more tasks"),
        pytest.param(1, [1, 2], None, id="another layer has one task"),
        pytest.param(2, [4], None, id="even ranges"),
        pytest.param(2, None, None, id="none"),
    ],
)
def test_bounds_that_do_not_count_are_left_out(task_count: int, bounds: list[int] | None, merged: Any) -> None:
    assert check_merged(split(task_count, bounds)).key_group_bounds == merged


@pytest.mark.parametrize("layer", ["base", "provisioner", "scaler", "oncall", "another"])
def test_every_layer_may_set_them(layer: str) -> None:
    check_layer(layer, {"key_group_bounds": [1, 2]})
    assert check_merged({**job({"task_count": 3}), "key_group_bounds": [1, 2]}).key_group_bounds == (1, 2)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        pytest.param((4, [1, 2]), (4, None), ChangeKind.NONE, id="ignored bounds are dropped"),
        pytest.param((4, [1, 2]), (4, [1, 5]), ChangeKind.NONE, id="ignored bounds are changed"),
        pytest.param((2, None), (2, [4]), ChangeKind.NONE, id="even bounds are written out"),
        pytest.param((3, [1, 2]), (3, None), ChangeKind.RESCALE, id="back to even ranges"),
        pytest.param((3, [1, 2]), (3, [1, 3]), ChangeKind.RESCALE, id="other bounds"),
        pytest.param((3, [1, 2]), (4, [1, 2]), ChangeKind.RESCALE, id="more tasks"),
    ],
)
def test_a_difference_is_a_rescale_only_when_key_groups_move(old: Any, new: Any, kind: ChangeKind) -> None:
    found = classify(check_merged(split(*old)), check_merged(split(*new)))
    assert found.kind is kind
    assert (found == NO_DIFFERENCE) == (kind is ChangeKind.NONE)


def test_what_ran_before_the_field_was_there_is_even() -> None:
    before = check_merged(job()).model_dump(mode="json")
    del before["key_group_bounds"]
    assert classify(before, check_merged(job())) == NO_DIFFERENCE


def test_explain_says_that_they_are_ignored() -> None:
    layers = [
        LayerConfig("base", 0, 1, job({"task_count": 4})),
        LayerConfig("oncall", 30, 1, {"key_group_bounds": [1, 2]}),
    ]
    ignored = {leaf.field: leaf.ignored for leaf in explain(layers) if leaf.ignored is not None}
    assert ignored == {"key_group_bounds": "for 3 tasks, and the job has 4: ranges are even"}
    assert why_ignored({"key_group_bounds": [1, 2], "task_count": 3}) is None
    assert why_ignored({"key_group_bounds": [1, 2]}) is not None
    assert why_ignored({"task_count": 3}) is None
