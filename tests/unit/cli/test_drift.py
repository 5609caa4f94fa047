"""What a folder of jobs and an edited text change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.drift import Kind, Present, Step, steps
from penstock.config.patches import patch_between


def test_each_job_has_one_step_by_name() -> None:
    wanted = {"new": {"a": 1}, "changed": {"a": 2, "b": {"c": 1}}, "same": {"a": 1}}
    present = {"changed": Present({"a": 1, "b": {"c": 1, "d": 2}}, 3), "same": Present({"a": 1}, 1)}
    found = steps(wanted, present, {"same": 1, "old": 4}, prune=False)
    assert found == [
        Step("changed", Kind.CHANGE, ("a: 1 -> 2", "b.d: 2 -> unset"), wanted["changed"], 3),
        Step("new", Kind.CREATE, (), {"a": 1}),
        Step("old", Kind.EXTRA, version=4),
        Step("same", Kind.SAME, (), {"a": 1}, 1),
    ]
    assert steps({}, {}, {"old": 4}, prune=True) == [Step("old", Kind.PRUNE, version=4)]


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({}, {}, {}),
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {}, {"a": None}),
        ({"a": 1}, {"a": None}, {"a": None}),
        ({}, {"a": None}, {}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": None}}),
        ({"a": {"b": 1}}, {"a": [1]}, {"a": [1]}),
        ({"a": [1]}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    ],
)
def test_a_patch_has_what_differs(old: Any, new: Any, patch: Any) -> None:
    assert patch_between(old, new) == patch


_JSON = st.recursive(
    st.integers(0, 2) | st.lists(st.integers(0, 1), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from("abc"), _JSON, max_size=3),
    st.dictionaries(st.sampled_from("abc"), _JSON, max_size=3),
)
def test_a_patch_makes_the_new_content_of_the_old(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert _merged(old, patch_between(old, new)) == new


def _merged(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result
