"""Lines to records: keys, partitions, and what is wrong with a line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.control.errors import UserError
from penstock.local.records import key_of, partition_of, row_of


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ((), None),
        (("dest",), b"SFO"),
        (("n",), b"7"),
        (("none",), None),
        (("dest", "n"), b'["SFO",7]'),
    ],
)
def test_the_key_of_a_row(columns: tuple[str, ...], expected: bytes | None) -> None:
    assert key_of({"dest": "SFO", "n": 7, "none": None}, columns, 1) == expected


def test_a_key_has_the_partition_of_its_function() -> None:
    """As the Java client and librdkafka's default place it among 100."""
    assert partition_of(b"SFO", "kafka", 100) == 14
    assert partition_of(b"SFO", "crc32", 100) == 69
    assert partition_of(None, "kafka", 100) == -1


@pytest.mark.parametrize(
    ("call", "told", "field"),
    [
        (lambda: row_of("{", 3), "line 3 is not JSON", "rows"),
        (lambda: row_of("[1]", 4), "line 4 is not a JSON object", "rows"),
        (lambda: key_of({"a": 1, "b": 2}, ["c"], 5), "line 5 has no column c; it has a, b", "key"),
    ],
)
def test_a_wrong_line_is_named(call: Callable[[], object], told: str, field: str) -> None:
    with pytest.raises(UserError, match=told) as refused:
        call()
    assert refused.value.field == field
