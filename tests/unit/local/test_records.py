"""Lines to records: keys, partitions, and what is wrong with a line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import Message

from penstock.control.errors import UserError
from penstock.local.records import (
    Asked,
    json_lines,
    key_of,
    partition_of,
    plain_lines,
    record_line,
    row_of,
    transaction_seconds,
    value_line,
    why_no_more,
)

_LOOK = (
    "`penstock topics list` shows what topics have, `penstock why JOB` what is wrong with the job that writes this one"
)


_ONE_OBJECT = (
    'Nothing was sent. Each line must be one object, such as {"id": 1}; `penstock topics produce TOPIC --format raw` '
    "sends lines of any text"
)


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


@pytest.mark.parametrize("number", ["1.10", "12345678901234567.89", "1e5", "-0", "18446744073709551616"])
def test_numbers_stay_as_they_are_written(number: str) -> None:
    """In keys, and in records that are printed, on one line."""
    row = row_of(f'{{"n": {number}}}', 1)
    assert key_of(row, ["n"], 1) == number.encode()
    assert key_of(row, ["n", "n"], 1) == f"[{number},{number}]".encode()
    message = SimpleNamespace(value=lambda: f'{{"n":\n{number}}}'.encode(), headers=lambda: None)
    assert value_line(cast(Message, message)) == f'{{"n": {number}}}'


def test_lines_are_texts_or_bytes_as_they_are() -> None:
    """With the key before the first separator, which nothing makes no key. Of JSON the blanks around it go."""
    assert json_lines(["k"])(' {"k": "a"} ', 1) == (' {"k": "a"} '.strip(), b"a")
    assert plain_lines(None)(" 1,x\t2 ", 1) == (" 1,x\t2 ", None)
    assert plain_lines("\t")("k\t1\t2", 1) == ("1\t2", b"k")
    assert plain_lines("::")("::1", 1) == ("1", None)
    assert plain_lines(None, is_base64=True)("AP8=", 1) == (b"\0\xff", None)
    assert plain_lines(":", is_base64=True)("é:AP8= ", 1) == (b"\0\xff", "é".encode())


def test_base64_has_all_bytes() -> None:
    message = SimpleNamespace(
        value=lambda: b"\0\xff", key=lambda: b"\xfe", headers=lambda: [("h", b"x")], partition=lambda: 1
    )
    message.offset, message.timestamp = lambda: 2, lambda: (1, 3)
    line = value_line(cast(Message, message), as_base64=True)
    assert plain_lines(None, is_base64=True)(line, 1) == (b"\0\xff", None)
    whole = json.loads(record_line(cast(Message, message), as_base64=True))
    assert (whole["key"], whole["value"], whole["headers"]) == ("/g==", "AP8=", {"h": "x"})
    message.value = lambda: None
    assert value_line(cast(Message, message), as_base64=True) == ""


def test_a_value_that_is_no_json_is_printed_as_a_text() -> None:
    message = SimpleNamespace(value=lambda: b"\xff{", headers=lambda: None)
    assert value_line(cast(Message, message)) == r'"\\xff{"'
    message.value = lambda: None
    assert value_line(cast(Message, message)) == "null"


def test_a_dead_letter_is_printed_with_its_place_and_reason() -> None:
    """As base64 it is the value alone, which can be sent again."""
    headers = [("penstock.job", b"etl"), ("penstock.topic", b"flights"), ("penstock.partition", b"3")]
    headers += [("penstock.offset", b"17"), ("penstock.reason", b"the value is not JSON")]
    message = SimpleNamespace(value=lambda: b"\xff no JSON", key=lambda: b"UA", headers=lambda: headers)
    assert value_line(cast(Message, message)) == (
        r'{"topic":"flights","partition":3,"offset":17,"reason":"the value is not JSON","key":"UA",'
        r'"value":"\\xff no JSON"}'
    )
    assert value_line(cast(Message, message), as_base64=True) == "/yBubyBKU09O"


def test_what_a_terminal_would_obey_is_an_escape() -> None:
    text = '{"real": "a\u009b2J\u202eb\x7f",\r"b": 1}'
    message = SimpleNamespace(
        value=text.encode, key=lambda: "\u009bk".encode(), headers=lambda: [], partition=lambda: 0, offset=lambda: 0
    )
    message.timestamp = lambda: (1, 3)
    for line in (value_line(cast(Message, message)), record_line(cast(Message, message))):
        assert line.isprintable()
    assert json.loads(value_line(cast(Message, message))) == json.loads(text)


def test_a_key_has_the_partition_of_its_function() -> None:
    """As the Java client and librdkafka's default place it among 100."""
    assert partition_of(b"SFO", "kafka", 100) == 14
    assert partition_of(b"SFO", "crc32", 100) == 69
    assert partition_of(None, "kafka", 100) == -1


@pytest.mark.parametrize(("characters", "seconds"), [(2, 60), (10_000_000, 70), (10**12, 900)])
def test_a_transaction_that_was_left_ends_soon(characters: int, seconds: int) -> None:
    """Readers of the topic wait so long. A large file has the time that it needs, as far as brokers allow."""
    assert transaction_seconds(characters) == seconds


@pytest.mark.parametrize(
    ("call", "told", "field"),
    [
        (lambda: row_of("{", 3), "line 3 is not JSON (unexpected end of data, at character 2)", "rows"),
        (lambda: row_of("UA,SFO", 4), f"at character 1). {_ONE_OBJECT}", "rows"),
        (lambda: row_of("[1]", 4), f"line 4 is not a JSON object. {_ONE_OBJECT}", "rows"),
        (lambda: plain_lines(";")("a,b", 6), "line 6 has no ';' between key and value", "rows"),
        (lambda: plain_lines(None, is_base64=True)("a,b", 7), "line 7 is not base64", "rows"),
        (lambda: key_of({"a": 1, "b": 2}, ["c"], 5), "line 5 has no column c; it has a, b", "key"),
    ],
)
def test_a_wrong_line_is_named(call: Callable[[], object], told: str, field: str) -> None:
    with pytest.raises(UserError, match=re.escape(told)) as refused:
        call()
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("asked", "seen", "is_at_end", "told"),
    [
        (Asked("t", 13, 30.0), 0, True, f"no record of t came for 30 s: it has no more. {_LOOK}"),
        (Asked("t", 13, 0.5), 4, True, f"4 of 13 records of t came, then none for 0.5 s: it has no more. {_LOOK}"),
        (
            Asked("t", 1, 30.0, skips=True),
            0,
            True,
            "no record of t came for 30 s. Only new ones are read: add --from-beginning for those that were there "
            "before",
        ),
        (
            Asked("t", 1, 30.0),
            0,
            False,
            "Kafka has not sent all of t and sends nothing for 30 s: see `penstock doctor`",
        ),
    ],
)
def test_who_waits_for_records_in_vain_is_told_why(asked: Asked, seen: int, is_at_end: bool, told: str) -> None:
    assert why_no_more(asked, seen, is_at_end=is_at_end) == told
