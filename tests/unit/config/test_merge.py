"""Algorithm 1 and its provenance."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.merge import LayerConfig, leaves, merge, merge_with_provenance

KEYS = st.sampled_from("abcd")
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(0, 3), st.sampled_from(["", "x", "a"]), st.lists(st.integers(0, 3))
)
ANY_CONFIG = st.recursive(
    st.dictionaries(KEYS, LEAVES, max_size=3), lambda inner: st.dictionaries(KEYS, LEAVES | inner, max_size=4)
)
# Shaped like layers that the field table has accepted: a path is a map in all of them or a leaf in all of them.
SHAPED_CONFIG = st.fixed_dictionaries(
    {},
    optional={
        "a": LEAVES,
        "b": st.fixed_dictionaries({}, optional={"a": LEAVES, "b": st.dictionaries(KEYS, LEAVES)}),
        "c": st.dictionaries(KEYS, st.dictionaries(KEYS, LEAVES)),
    },
)


def layered(*configs: dict[str, Any]) -> list[LayerConfig]:
    """Layers of rising rank, named `layer-<rank>`."""
    return [LayerConfig(f"layer-{rank}", rank, rank + 1, config) for rank, config in enumerate(configs)]


def without(config: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """A copy of `config` without the key at `path`."""
    changed = copy.deepcopy(config)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return changed


@pytest.mark.parametrize(
    ("lower", "upper", "merged"),
    [
        pytest.param({"a": 1}, {}, {"a": 1}, id="upper says nothing"),
        pytest.param({}, {"a": 1}, {"a": 1}, id="lower says nothing"),
        pytest.param({"a": 1}, {"a": 2}, {"a": 2}, id="scalar over scalar"),
        pytest.param({"m": {"a": 1, "b": 1}}, {"m": {"b": 2}}, {"m": {"a": 1, "b": 2}}, id="map over map"),
        pytest.param({"m": 1}, {"m": {"a": 2}}, {"m": {"a": 2}}, id="map over scalar"),
        pytest.param({"m": {"a": 1}}, {"m": 2}, {"m": 2}, id="scalar over map"),
        pytest.param({"m": {"a": 1}}, {"m": {}}, {"m": {"a": 1}}, id="empty map over map changes nothing"),
        pytest.param({"m": 1}, {"m": {}}, {"m": {}}, id="empty map over scalar"),
        pytest.param({"m": {}}, {"m": 1}, {"m": 1}, id="scalar over empty map"),
        pytest.param({"l": [1, 2, 3]}, {"l": [4]}, {"l": [4]}, id="lists are leaves"),
        pytest.param({"m": None}, {"m": {"a": 1}}, {"m": {"a": 1}}, id="map over null"),
    ],
)
def test_two_layers(lower: dict[str, Any], upper: dict[str, Any], merged: dict[str, Any]) -> None:
    assert merge(layered(lower, upper)) == merged


def test_no_layer_is_empty_and_one_layer_is_itself() -> None:
    only = {"m": {"a": 1}}
    assert merge([]) == {}
    assert merge(layered(only)) is only


def test_rank_decides_not_the_order_given() -> None:
    low, middle, high = layered({"a": 1, "b": 1, "c": 1}, {"b": 2, "c": 2}, {"c": 3})
    assert merge([high, low, middle]) == {"a": 1, "b": 2, "c": 3}


def test_two_layers_of_one_rank_are_refused() -> None:
    with pytest.raises(ValueError, match="same rank 1"):
        merge([LayerConfig("one", 1, 1, {}), LayerConfig("two", 1, 1, {})])


@given(st.lists(SHAPED_CONFIG, min_size=3, max_size=3))
def test_associative_over_layers(configs: list[dict[str, Any]]) -> None:
    low, middle, high = configs
    from_below = merge(layered(dict(merge(layered(low, middle))), high))
    from_above = merge(layered(low, dict(merge(layered(middle, high)))))
    assert from_below == from_above == merge(layered(low, middle, high))


def test_a_map_against_a_scalar_is_where_associativity_ends() -> None:
    low, middle, high = {"m": {"a": 1}}, {"m": 2}, {"m": {"b": 3}}
    assert merge(layered(low, middle, high)) == {"m": {"b": 3}}
    assert merge(layered(low, dict(merge(layered(middle, high))))) == {"m": {"a": 1, "b": 3}}


@given(st.lists(ANY_CONFIG, min_size=1, max_size=5), st.data())
def test_merging_the_lower_layers_first_changes_nothing(configs: list[dict[str, Any]], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(configs)))
    below = dict(merge(layered(*configs[:cut])))
    assert merge(layered(below, *configs[cut:])) == merge(layered(*configs))


@given(st.lists(ANY_CONFIG, max_size=4))
def test_inputs_are_not_changed(configs: list[dict[str, Any]]) -> None:
    before = copy.deepcopy(configs)
    merge_with_provenance(layered(*configs))
    assert configs == before


@given(ANY_CONFIG)
def test_merging_a_layer_over_itself_changes_nothing(config: dict[str, Any]) -> None:
    assert merge(layered(config, config)) == config


@given(SHAPED_CONFIG, SHAPED_CONFIG, st.data())
def test_dropping_a_key_brings_the_lower_value_back(low: dict[str, Any], high: dict[str, Any], data: Any) -> None:
    paths = [path for path, value in leaves(high) if value != {}]
    if not paths:
        assert merge(layered(low, high)) == merge(layered(high, low))
        return
    path = data.draw(st.sampled_from(paths))
    restored = dict(leaves(merge(layered(low, without(high, path)))))
    lower = dict(leaves(low))
    assert restored.get(path, "absent") == lower.get(path, "absent")


@given(st.lists(ANY_CONFIG, min_size=1, max_size=4))
def test_provenance_names_a_layer_that_says_so_for_every_leaf(configs: list[dict[str, Any]]) -> None:
    layers = layered(*configs)
    merged, provenance = merge_with_provenance(layers)
    assert merged == merge(layers)
    assert {path: found.value for path, (found, *_) in provenance.items()} == dict(leaves(merged))
    for path, (found, *hidden) in provenance.items():
        assert dict(leaves(found.layer.config))[path] == found.value
        ranks = [said.layer.rank for said in (found, *hidden)]
        assert ranks == sorted(set(ranks), reverse=True), "nearest layer first, each once"


@given(st.lists(SHAPED_CONFIG, min_size=2, max_size=4))
def test_the_first_hidden_value_is_what_comes_back_without_the_layer(configs: list[dict[str, Any]]) -> None:
    layers = layered(*configs)
    _, provenance = merge_with_provenance(layers)
    for path, (found, *hidden) in provenance.items():
        lower = dict(leaves(merge([layer for layer in layers if layer.rank < found.layer.rank])))
        if hidden and found.value != {}:
            assert lower[path] == hidden[0].value
        elif found.value != {}:
            assert path not in lower


def test_provenance_over_a_map_and_a_scalar() -> None:
    layers = layered({"m": {"a": 1, "b": 1}}, {"m": 2}, {"m": {"a": 3}})
    merged, provenance = merge_with_provenance(layers)
    assert merged == {"m": {"a": 3}}
    found, *hidden = provenance["m", "a"]
    assert found.layer.name == "layer-2"
    assert [(said.layer.name, said.path, said.value) for said in hidden] == [
        ("layer-1", ("m",), 2),
        ("layer-0", ("m", "a"), 1),
    ]


def test_provenance_of_a_scalar_that_hides_a_map() -> None:
    _, provenance = merge_with_provenance(layered({"m": {"a": 1}}, {"m": 2}))
    assert [(said.path, said.value) for said in provenance[("m",)][1:]] == [(("m",), {"a": 1})]
