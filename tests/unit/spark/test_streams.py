"""What a stream asks of its source, and how its place is carried on."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.config.keygroups import KeyGroupRange
from penstock.config.model import JobConfig
from penstock.config.stream import Stream
from penstock.control.errors import BrokenCheckpoint
from penstock.spark.redistribute.offsets import SourceOffsets, line_of, merged, sliced, source_of
from penstock.spark.streams import batch_limits, paced_options, stream_options

LINE = '{"sourceVersion":1,"reservoirId":"a","reservoirVersion":3,"index":-1,"isStartingVersion":false}'
CSV = {"header": "true", "enforceSchema": "false", "mode": "FAILFAST", "maxFileAge": "36500d"}


@pytest.mark.parametrize(
    ("stream", "options"),
    [
        ({"format": "delta"}, {"skipChangeCommits": "false"}),
        ({"format": "delta", "changed_rows": "skip"}, {"skipChangeCommits": "true"}),
        ({"format": "delta", "starting_version": 4}, {"startingVersion": "4", "skipChangeCommits": "false"}),
        (
            {"format": "delta", "starting_position": "latest"},
            {"startingVersion": "latest", "skipChangeCommits": "false"},
        ),
        (
            {"format": "delta", "starting_position": "2026-11-26T08:00:00.5+01:00"},
            {"startingTimestamp": "2026-11-26 07:00:00.500000", "skipChangeCommits": "false"},
        ),
        ({"format": "csv"}, CSV),
        ({"format": "csv", "malformed": "null", "header": False}, CSV | {"mode": "PERMISSIVE", "header": "false"}),
        (
            {"format": "csv", "csv": {"delimiter": "|", "comment": "#"}},
            CSV | {"delimiter": "|", "comment": "#"},
        ),
        ({"format": "parquet"}, {"maxFileAge": "36500d"}),
    ],
)
def test_options(stream: dict[str, Any], options: dict[str, str]) -> None:
    limit = {"maxFilesPerTrigger": "1000"}
    assert stream_options(Stream(path="/in", **stream), None) == limit | options


def test_a_limit_of_bytes() -> None:
    """Delta takes both, Spark's source for files one."""
    both = {"maxFilesPerTrigger": "1000", "maxBytesPerTrigger": "9"}
    assert stream_options(Stream(format="delta", path="/in"), 9).items() >= both.items()
    files = stream_options(Stream(format="json", path="/in"), 9)
    assert (files.get("maxFilesPerTrigger"), files["maxBytesPerTrigger"]) == (None, "9")


@pytest.mark.parametrize(
    ("limits", "millis"),
    [
        pytest.param({}, "10000", id="by default"),
        pytest.param({"trigger_interval_seconds": 60.0}, "60000", id="as long as the trigger"),
        pytest.param({"max_batch_seconds": 2.5}, "2500", id="as asked"),
        pytest.param({"max_bytes_per_trigger": 9}, None, id="by bytes"),
    ],
)
def test_how_long_a_batch_should_take(limits: dict[str, Any], millis: str | None) -> None:
    stream = Stream(format="delta", path="/in")
    config = JobConfig.model_validate(
        {"streams": {"in": stream}, "query": {"sql": "SELECT 1"}, "output": {"type": "delta", "path": "/out"}, **limits}
    )
    assert paced_options(stream, batch_limits(config)).get("penstock.targetBatchMillis") == millis


@pytest.mark.parametrize("line", [LINE, '{"logOffset":3}', "17"])
def test_the_place_in_a_stream_is_carried_on_as_it_is(line: str) -> None:
    found = source_of(line)
    assert [line_of(each) for each in sliced(merged([[found]], 1), KeyGroupRange(0, 1))] == [line]
    with pytest.raises(BrokenCheckpoint, match="2 tasks have read streams"):
        merged([[found], [found]], 1)


def test_a_topic_is_no_stream() -> None:
    assert source_of('{"flights":{"0":5}}') == SourceOffsets({"flights": {0: 5}})
