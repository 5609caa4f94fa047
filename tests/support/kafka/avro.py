"""Records of Avro, written from its specification and not by a library that the product uses."""

from __future__ import annotations

import json
from typing import Any


def record(*fields: tuple[str, Any], **defaults: Any) -> str:
    """A schema of a record `event`: its fields and their types, and the defaults of some."""
    declared = [
        {"name": name, "type": kind, **({"default": defaults[name]} if name in defaults else {})}
        for name, kind in fields
    ]
    return json.dumps({"type": "record", "name": "event", "fields": declared})


def number(value: int) -> bytes:
    """A long of Avro: zigzag, seven bits a byte."""
    left, found = (value << 1) ^ (value >> 63), b""
    while left > 0x7F:
        found, left = found + bytes([left & 0x7F | 0x80]), left >> 7
    return found + bytes([left])


def text(value: str) -> bytes:
    """A string of Avro."""
    return number(len(value.encode())) + value.encode()


def framed(schema: int, *parts: bytes) -> bytes:
    """A value in the frame of Confluent: zero, the id of the schema in four bytes, the fields."""
    return b"\0" + schema.to_bytes(4, "big") + b"".join(parts)
