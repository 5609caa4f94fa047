"""Which note of the versions of tables counts for a batch that is repeated."""

from __future__ import annotations

import pytest

from penstock.spark.table_versions import newest_note


@pytest.mark.parametrize(
    ("names", "newest"),
    [
        ([], None),
        ([".3-1.1.crc", "3-1.1.tmp", "other"], None),
        (["9-1.1"], None),
        (["3-1.1", "5-1.1"], "5-1.1"),
        # of an earlier release, which had no owners in the names
        (["3", "5"], "5"),
        (["5", "3-1.1"], "3-1.1"),
        # what an earlier owner has written late is of a greater batch, or of the same
        (["4-2.1", "5-1.1"], "4-2.1"),
        (["5-2.1", "5-1.9"], "5-2.1"),
        (["5-2.9", "5-2.10"], "5-2.10"),
        # the newer owner repeats a batch that it has not planned
        (["5-2.1", "6-3.1"], "5-2.1"),
    ],
)
def test_the_last_note_of_the_newest_owner_counts(names: list[str], newest: str | None) -> None:
    assert newest_note(names, pending=5) == newest
    assert newest_note(reversed(names), pending=5) == newest
