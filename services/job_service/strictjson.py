"""JSON that Postgres can keep: no NUL, no lone surrogate, no NaN, no number beyond 64 bits, no endless depth. Pure.

Nor has an object a key twice: nobody could say which value was meant.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from penstock.control.unique_keys import unique_keys

DEEPEST = 64
MOST_VALUES = 500_000
_BEYOND_64_BITS = 2**63
# A string without its end goes on to the end of the text, so that this takes one pass over any text.
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\[\s\S])*+"?')


def strict_json(body: bytes) -> Any:
    """The value of a JSON text. Raises DuplicateKey, and ValueError for all else."""
    if body.count(b",") > MOST_VALUES and _STRINGS.sub(b"", body).count(b",") > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES} values")
    try:
        value = json.loads(body, parse_constant=_refuse_constant, object_pairs_hook=unique_keys)
    except RecursionError:
        raise _too_deep() from None
    _check(value, DEEPEST)
    return value


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _check(value: Any, depth_left: int) -> None:
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, dict):
        _check_members([*value, *value.values()], depth_left)
    elif isinstance(value, list):
        _check_members(value, depth_left)
    elif isinstance(value, int) and not -_BEYOND_64_BITS <= value < _BEYOND_64_BITS:
        raise ValueError("a whole number does not fit into 64 bits")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number does not fit into 64 bits")


def _check_text(value: str) -> None:
    if "\x00" in value:
        raise ValueError("a NUL character is not allowed in text")
    value.encode()  # raises UnicodeEncodeError, a ValueError, on a lone surrogate


def _check_members(values: list[Any], depth_left: int) -> None:
    if depth_left == 0:
        raise _too_deep()
    for value in values:
        _check(value, depth_left - 1)


def _too_deep() -> ValueError:
    return ValueError(f"more than {DEEPEST} levels of nesting")
