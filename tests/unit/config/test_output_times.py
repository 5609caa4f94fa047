"""How an output writes times: which formats are refused, what a change costs, and what jobs without one are."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.classify import classify, form_changes
from penstock.config.declare import ChangeKind
from penstock.config.validate import check_merged
from penstock.control.errors import InvalidConfig
from tests.support.config.jobs import job

TOPIC = {"type": "kafka", "topic": "clean"}
FILES = {"type": "files", "path": "file:/f", "format": "json"}


def output(*parts: dict[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for part in parts:
        merged |= part
    return {**job(), "output": merged}


@pytest.mark.parametrize("where", [TOPIC, FILES])
@pytest.mark.parametrize(
    ("timestamp_format", "told"),
    [
        ("epoch_micros", "the numbers since 1970 are epoch_seconds and epoch_millis"),
        ("HH:mm:ss", "a pattern needs year, month and day"),
        ("yyyy-MM-dd hh:mm", "hours of half a day"),
        ("yyyy-MM-dd'T", "a quote is not closed"),
    ],
)
def test_what_tells_no_time_is_refused(where: dict[str, Any], timestamp_format: str, told: str) -> None:
    with pytest.raises(InvalidConfig, match=told) as refused:
        check_merged(output(where, {"timestamp_format": timestamp_format}))
    assert (refused.value.field, refused.value.rule) == ("output.timestamp_format", "timestamp_pattern")


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ({**TOPIC, "value_format": "avro"}, "avro"),
        ({**FILES, "format": "parquet"}, "parquet"),
    ],
)
def test_it_is_of_formats_of_text(where: dict[str, Any], kind: str) -> None:
    with pytest.raises(InvalidConfig, match=f"is of json and csv only; the format is {kind}") as refused:
        check_merged(output(where, {"timestamp_format": "epoch_millis"}))
    assert (refused.value.field, refused.value.rule) == ("output.timestamp_format", "timestamp_format_of_text")


def test_each_output_has_its_own() -> None:
    side = {"a": {"output": {**TOPIC, "topic": "side", "timestamp_format": "epoch_days"}}}
    with pytest.raises(InvalidConfig) as refused:
        check_merged({**output(TOPIC, {"timestamp_format": "epoch_millis"}), "side_outputs": side})
    assert refused.value.field == "side_outputs.a.output.timestamp_format"


@pytest.mark.parametrize(("where", "needs_path"), [(TOPIC, False), (FILES, True)])
def test_a_change_ends_the_batch_before_in_the_old_form(where: dict[str, Any], needs_path: bool) -> None:
    """And a folder takes files of one form."""
    before, after = (check_merged(output(where, more)) for more in ({}, {"timestamp_format": "epoch_seconds"}))
    found = classify(before, after)
    assert (found.kind, found.names) == (ChangeKind.RESCALE, ("output.timestamp_format",))
    assert bool(form_changes(found, after.output.type)) is needs_path
    assert "timestamp_format" not in before.model_dump(mode="json")["output"]
