"""What a comparison that was made elsewhere costs: as `classify` says, or not to be told from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from penstock.config.classify import classify
from penstock.config.model import ChangeKind
from penstock.config.sameness import CLOSED, OPEN, TOP, OpenChange, Sameness, SimpleChange, opened, simple_change
from tests.support.jobs import make_config


def compare(old: Mapping[str, Any], new: Mapping[str, Any], *changes: OpenChange) -> Sameness:
    """What a database would find."""
    top = tuple(old[field] == new[field] if field in old and field in new else None for field in TOP)
    return Sameness(top, tuple(old[group][leaf] == new[group][leaf] for group, leaf in CLOSED), changes)


def test_every_field_is_compared_in_one_of_the_three_ways() -> None:
    config = make_config()
    assert set(TOP) == set(config)
    assert {field for field in TOP if isinstance(config[field], dict)} == {*OPEN, *(group for group, _ in CLOSED)}


def test_equal_configurations_differ_in_nothing() -> None:
    assert simple_change(compare(make_config(), make_config())) == SimpleChange(ChangeKind.NONE, ())


@pytest.mark.parametrize(
    "overrides",
    [
        {"package": {"version": "2"}},
        {"package": {"version": "2", "name": "flights"}, "priority": 3},
        {"resources": {"cpu_cores": 1}, "priority": 2},
        {"slo": {"max_lag_seconds": 5}, "owner": "ann", "max_task_count": 8},
        {"desired_state": "stopped"},
    ],
)
def test_a_simple_difference_is_what_classify_says(overrides: dict[str, Any]) -> None:
    old, new = make_config(), make_config(**overrides)
    difference = classify(old, new)
    fields = tuple(sorted(change.field for change in difference.fields))
    assert simple_change(compare(old, new)) == SimpleChange(difference.kind, fields)


@pytest.mark.parametrize("overrides", [{"task_count": 4}, {"threads_per_task": 2}, {"state_backend": "rocksdb"}])
def test_a_rescale_or_a_forbidden_change_is_not_simple(overrides: dict[str, Any]) -> None:
    assert simple_change(compare(make_config(), make_config(**overrides))) is None


@pytest.mark.parametrize(
    ("path", "in_old", "in_new", "kind"),
    [
        (("labels", "a.b"), False, True, ChangeKind.NONE),
        (("args", "n"), True, False, ChangeKind.RESTART),
        (("inputs", "events", "value_schema"), True, True, ChangeKind.RESTART),
        (("inputs", "events", "starting_position"), True, True, ChangeKind.NONE),
        (("output", "topic"), True, True, ChangeKind.RESTART),
        (("inputs", "events", "value_schema"), False, True, None),
        (("inputs", "events", "topic"), True, True, None),
        (("inputs", "more"), False, True, None),
        (("output", "type"), True, True, None),
        (("labels", "a", "deeper"), True, True, None),
    ],
)
def test_below_open_fields_the_path_decides(
    path: tuple[str, ...], in_old: bool, in_new: bool, kind: ChangeKind | None
) -> None:
    top = tuple(field != path[0] for field in TOP)
    found = simple_change(Sameness(top, (True,) * len(CLOSED), (OpenChange(path, in_old, in_new),)))
    assert found == (None if kind is None else SimpleChange(kind, (".".join(path),)))


@pytest.mark.parametrize("field", ["priority", "package", "labels"])
def test_a_field_that_one_side_does_not_have_is_not_judged(field: str) -> None:
    top = tuple(None if name == field else True for name in TOP)
    assert simple_change(Sameness(top, (True,) * len(CLOSED), ())) is None


def test_an_open_field_that_differs_untold_is_not_judged() -> None:
    top = tuple(name != "labels" for name in TOP)
    assert simple_change(Sameness(top, (True,) * len(CLOSED), ())) is None


def test_open_changes_are_read_from_json() -> None:
    assert opened([[["labels", "a"], True, False]]) == (OpenChange(("labels", "a"), True, False),)
