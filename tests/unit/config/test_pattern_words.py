"""Patterns in words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.config.model import JobConfig
from penstock.config.pattern_words import words_of
from penstock.config.validate import check_layer
from penstock.control.errors import InvalidConfig


def patterns_in(schema: Any) -> Iterator[str]:
    """All patterns of a JSON Schema, of keys too."""
    if isinstance(schema, list):
        for each in schema:
            yield from patterns_in(each)
    elif isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        yield from schema.get("patternProperties", {})
        for each in schema.values():
            yield from patterns_in(each)


PATTERNS = sorted(set(patterns_in(JobConfig.model_json_schema())))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_pattern_of_a_job_has_words_with_a_right_example(pattern: str) -> None:
    words = words_of(pattern)
    assert words is not None
    _, _, example = words.rpartition(" such as ")
    assert re.fullmatch(pattern, example) or "sha256" in words


@pytest.mark.parametrize(
    ("layer", "field", "told"),
    [
        ({"inputs": {"My Input": {"topic": "a"}}}, "inputs.My Input", "it must be 1 to 63 letters, digits and"),
        ({"side_outputs": {"late-rows": {}}}, "side_outputs.late-rows", "it must be 1 to 63 letters, digits and"),
        ({"labels": {"A b": "x"}}, "labels.A b", "it must be 1 to 100 lower case letters"),
        ({"package": {"name": "My Package"}}, "package.name", '"My Package" is not allowed; allowed: text: 1 to 100'),
        ({"region": "Eu West"}, "region", '"Eu West" is not allowed; allowed: text: 1 to 100 lower case letters'),
    ],
)
def test_a_bad_name_is_refused_in_words(layer: dict[str, Any], field: str, told: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        check_layer("base", layer)
    assert refused.value.detail.startswith(f"{field}: {told}")
    assert "such as" in refused.value.detail
    assert "[" not in refused.value.detail, "no regular expression"
