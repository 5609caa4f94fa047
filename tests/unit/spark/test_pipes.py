"""Lines that come down a pipe: whole ones, and never more of one than the reader takes."""

from __future__ import annotations

import os

import pytest

from penstock.spark.host.pipes import whole_lines


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        (b"one\ntwo\npart", [b"one\n", b"two\n"]),
        (b"1234567\n", [b"1234567\n"]),
        (b"12345678\nnext\n", [b"\n", b"next\n"]),
        (b"x" * 20 + b"\nnext\n", [b"xxxx\n", b"next\n"]),
        (b"x" * 50_000, []),
    ],
)
def test_no_more_of_a_line_is_kept_than_the_limit(written: bytes, lines: list[bytes]) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as stream:
        stream.write(written)
    assert list(whole_lines(reader, most_bytes=8)) == lines
