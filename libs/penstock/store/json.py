"""JSON for Postgres. Every writer of the store makes its JSON here, since Postgres refuses some texts of JSON.

A statement is often about all jobs of a cell or all tasks of a container. One bad text must not refuse it.
"""

from __future__ import annotations

import re
from typing import Any

import orjson
from psycopg.types.json import Jsonb

from penstock.control.texts import cleaned

# An even number of backslashes before it: the text `\\u0000` of JSON is a backslash and `u0000`.
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")


def as_json(value: Any) -> str:
    """The JSON text of a value, with U+FFFD in place of each NUL and lone surrogate."""
    try:
        text = orjson.dumps(value)
    except orjson.JSONEncodeError:  # a lone surrogate; all else is refused again
        text = orjson.dumps(cleaned(value))
    if b"\\u0000" in text:
        text = _NUL.sub(rb"\1\\ufffd", text)
    return text.decode()


def as_jsonb(value: Any) -> Jsonb:
    """A value of a parameter of type jsonb, with U+FFFD in place of each NUL and lone surrogate."""
    return Jsonb(value, dumps=as_json)
