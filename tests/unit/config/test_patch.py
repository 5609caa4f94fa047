"""JSON merge patch against the test cases of RFC 7386, appendix A."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.merge import MAX_DEPTH, apply_merge_patch
from penstock.control.errors import InvalidConfig

RFC_7386_APPENDIX_A = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "x", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(("target", "patch", "result"), RFC_7386_APPENDIX_A)
def test_rfc_7386(target: Any, patch: Any, result: Any) -> None:
    assert apply_merge_patch(target, patch) == result


@given(JSON, JSON)
def test_neither_side_is_changed_and_patching_twice_is_patching_once(target: Any, patch: Any) -> None:
    before = copy.deepcopy((target, patch))
    once = apply_merge_patch(target, patch)
    assert apply_merge_patch(once, patch) == once
    assert (target, patch) == before


def nested(depth: int) -> dict[str, Any]:
    """A map in a map, `depth` deep."""
    return {"a": nested(depth - 1)} if depth > 1 else {"a": 1}


def test_depth_is_limited() -> None:
    assert apply_merge_patch({}, nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    with pytest.raises(InvalidConfig) as refused:
        apply_merge_patch({}, nested(MAX_DEPTH + 1))
    assert refused.value.rule == "too_deep"
