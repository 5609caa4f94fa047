"""The marker's table: what to do with a batch, given the last one that the database has."""

from __future__ import annotations

import pytest

from penstock.control.errors import BrokenCheckpoint
from penstock.spark.sinks.batch_marker import Marker, is_written


@pytest.mark.parametrize(
    ("marker", "batch_id", "skipped"),
    [
        (None, 0, False),
        (None, 57, False),
        (Marker(0, "q"), 0, True),
        (Marker(7, "q"), 7, True),
        (Marker(7, "q"), 8, False),
    ],
)
def test_decision(marker: Marker | None, batch_id: int, skipped: bool) -> None:
    assert is_written(marker, batch_id, "q") is skipped


@pytest.mark.parametrize(
    ("batch_id", "query_id", "words"),
    [
        (6, "q", "the checkpoint went back"),
        (0, "q", "the checkpoint went back"),
        (9, "q", "the database went back"),
        (7, "other", "the checkpoint was replaced"),
        (8, "other", "the checkpoint was replaced"),
    ],
)
def test_contradictions_fail(batch_id: int, query_id: str, words: str) -> None:
    with pytest.raises(BrokenCheckpoint) as caught:
        is_written(Marker(7, "q"), batch_id, query_id)
    assert words in caught.value.detail
