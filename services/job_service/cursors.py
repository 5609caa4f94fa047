"""Opaque cursors: where the next page begins. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import orjson

from penstock.control.errors import InvalidConfig

Row = TypeVar("Row")
_LARGEST_NUMBER = 2**62
_LONGEST_NAME = 300
_INDEX = "[0-9]{1,9}"


class Page(NamedTuple):
    """Which page of a list is asked for: at most `limit` items, after those of the page that gave `cursor`."""

    cursor: str | None
    limit: int

    def after_name(self) -> str:
        """The name after which it begins; empty, before all names, without a cursor. Raises InvalidConfig."""
        key = "" if self.cursor is None else _decode(self.cursor)
        if not isinstance(key, str) or "\x00" in key or len(key) > _LONGEST_NAME:
            raise _refusal()
        return key

    def after_number(self) -> int | None:
        """The number after which it begins; None without a cursor. Raises InvalidConfig."""
        key = None if self.cursor is None else _decode(self.cursor)
        if self.cursor is not None and (type(key) is not int or abs(key) > _LARGEST_NUMBER):
            raise _refusal()
        return key if isinstance(key, int) else None

    def after_task(self) -> tuple[str, int]:
        """The job and the index of the task after which it begins; before all tasks without a cursor. Raises
        InvalidConfig."""
        job, slash, index = self.after_name().rpartition("/")
        if self.cursor is None:
            return "", -1
        if not slash or re.fullmatch(_INDEX, index) is None:
            raise _refusal()
        return job, int(index)

    def after_place(self) -> list[Any] | None:
        """The place in an order after which it begins; None without a cursor. Raises InvalidConfig."""
        key = None if self.cursor is None else _decode(self.cursor)
        if self.cursor is not None and not isinstance(key, list):
            raise _refusal()
        return key if isinstance(key, list) else None

    def next(self, rows: Sequence[Row], key: Callable[[Row], str | int]) -> str | None:
        """The cursor after this page; None when the page is not full, so nothing follows."""
        return encode(key(rows[-1])) if len(rows) == self.limit else None


def encode(key: str | int | list[Any]) -> str:
    """A cursor that goes on after `key`."""
    return base64.urlsafe_b64encode(orjson.dumps(key)).decode().rstrip("=")


def _decode(cursor: str) -> object:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        decoded: object = orjson.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, binascii.Error):
        raise _refusal() from None
    return decoded


def _refusal() -> InvalidConfig:
    return InvalidConfig("this is no cursor of this list", field="cursor", rule="cursor")
