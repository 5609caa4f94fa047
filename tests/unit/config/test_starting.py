"""Where an input begins: texts to moments and offsets."""

from __future__ import annotations

import pytest

from penstock.config.starting import starting_millis, starting_offsets


@pytest.mark.parametrize(
    ("position", "millis"),
    [
        ("earliest", None),
        ("latest", None),
        ("0:5,1:7", None),
        ("1970-01-01T00:00Z", 0),
        ("1970-01-01T00:00:01.250Z", 1_250),
        ("1970-01-01T02:00:00+01:00", 3_600_000),
    ],
)
def test_a_moment_is_milliseconds(position: str, millis: int | None) -> None:
    assert starting_millis(position) == millis


@pytest.mark.parametrize("position", ["2026-02-30T00:00Z", "2026-01-01T25:00Z", "1969-12-31T23:59Z"])
def test_what_is_no_moment_of_a_record(position: str) -> None:
    with pytest.raises(ValueError, match=r"out of range|must be in|before 1970"):
        starting_millis(position)


@pytest.mark.parametrize(
    ("position", "offsets"),
    [("0:120,1:0", {0: 120, 1: 0}), ("7:999999999999999999", {7: 10**18 - 1}), ("earliest", None), ("10:00Z", None)],
)
def test_offsets_are_by_key_group(position: str, offsets: dict[int, int] | None) -> None:
    assert starting_offsets(position) == offsets
