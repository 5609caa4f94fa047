"""JSON that Postgres takes, whatever is in it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from penstock.store.engine import connect
from penstock.store.json import as_json, as_jsonb


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([{"error": "12\x00x"}], '[{"error":"12\\ufffdx"}]'),
        ({"a\x00\x00": "\\\x00"}, '{"a\\ufffd\\ufffd":"\\\\\\ufffd"}'),
        (["\\u0000"], '["\\\\u0000"]'),
        (["\ud800", "\U0001f600"], '["\ufffd","\U0001f600"]'),
        (orjson.Fragment(b'{"error":"\\u0000"}'), '{"error":"\\ufffd"}'),
    ],
)
def test_bad_texts_are_replaced_and_no_others(value: Any, text: str) -> None:
    assert as_json(value) == text


def test_a_parameter_is_made_in_the_same_way() -> None:
    assert as_jsonb({"why": "\x00"}).dumps is as_json


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError):
        as_json({"a": object()})


def test_errors_of_the_store_show_no_parameters() -> None:
    engine = connect("postgresql://127.0.0.1:1/none")
    assert engine.hide_parameters
    engine.dispose()
