"""What is wrong with a text of SQL, for people: tables."""

from __future__ import annotations

import pytest

from penstock.config.problems import Problem
from penstock.config.sql import parse_query
from penstock.config.sql_errors import Frame

MISSING = "a value or an expression is missing"
STRAY = "this word or sign cannot stand here"
BEGINS = "a query begins with SELECT or WITH or FROM"
AT_SELEC = f'line 1, column 1, at "SELEC": {BEGINS}; do you mean SELECT?'
MISSPELT_TWICE = (
    f'line 2, column 2, at "SELEC": {BEGINS}; do you mean SELECT? '
    'Then line 2, column 10, at "FORM": ) is missing; is FORM to be FROM?'
)
TOO_MANY = "The number of provided arguments (2) is greater than the maximum number of supported arguments (1)"


def told(sql: str | Frame) -> str:
    found = parse_query(sql)
    assert isinstance(found, Problem)
    assert found.rule == "sql_syntax"
    return found.detail


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELECT cents >", f'line 1, column 14, at ">": {MISSING}'),
        ("SELEC a FROM b", f'{AT_SELEC} Then line 1, column 9, at "FROM": {STRAY}'),
        ("-- all\n(SELEC a FORM b)", MISSPELT_TWICE),
        (
            "GET a FROM b",
            f'line 1, column 1, at "GET": {BEGINS}; then line 1, column 7, at "FROM": {STRAY}',
        ),
        ("SELECT a FORM b", f'line 1, column 15, at "b": {STRAY}; is FORM to be FROM?'),
        ("SELECT a FROM b\nWHEER a > 1", f'line 2, column 7, at "a": {STRAY}; is WHEER to be WHERE?'),
        ("SELECT a FROM b GRUOP BY a", f'line 1, column 23, at "BY": {STRAY}; is GRUOP to be GROUP?'),
        ("SELECT a FROM orders o 5", f'line 1, column 24, at "5": {STRAY}'),
        ("FROM orders 5", f'line 1, column 13, at "5": {STRAY}'),
        ("SELECT a\nFROM b\nWHERE x ==== 2", f'line 3, column 11, at "==": {MISSING}'),
        ("SELECT a FROM", 'line 1, column 10, at "FROM": the name of a table must follow'),
        ("SELECT a FROM b WHERE (a > 1", 'line 1, column 28, at "1": ) is missing'),
        ("SELECT x[1 FROM b", 'line 1, column 12, at "FROM": ] is missing'),
        ("SELECT lower(a, 1) FROM b", f'line 1, column 18, at ")": {TOO_MANY}'),
        ("SELECT a\n  , 'abc FROM b", 'line 2, column 5, at "\'": it is opened here and never closed'),
        ("SELECT a FROM b /* x", "a comment or a text is opened and never closed"),
        ("SELECT map(a) FROM b", "it cannot be read: a call of a function may have too few arguments"),
    ],
)
def test_a_wrong_text_has_a_place_a_piece_and_a_reason(sql: str, text: str) -> None:
    assert told(sql) == f"query.sql: {text}"


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (Frame("SELECT 1 FROM result WHERE ", "cents >"), f'line 1, column 7, at ">": {MISSING}'),
        (Frame("SELECT 1 FROM result WHERE ", "a\n  AND b c d"), f'line 2, column 9, at "c": {STRAY}'),
        (Frame("SELECT 1 FROM result WHERE ", ""), f"at the begin: {MISSING}"),
        (Frame("SELECT ", "cents >", "\nFROM result"), f'at the end, after "cents >": {MISSING}'),
        (Frame("SELECT ", "lower(a b)", "\nFROM result"), 'line 1, column 9, at "b": ) is missing'),
    ],
)
def test_nobody_is_told_of_text_that_they_have_not_written(frame: Frame, text: str) -> None:
    assert told(frame) == f"query.sql: {text}"
