"""A disk that is full in the middle of writing files."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import pytest


@contextmanager
def _dies_at(where: object, name: str, at: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Call number `at` fails, as on a full disk. Nothing is left to do after that: the error ends the block."""
    real, calls = getattr(where, name), count()

    def call(*args: object) -> object:
        if next(calls) == at:
            raise OSError(errno.ENOSPC, "no space left on device")
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(where, name, call)
        with pytest.raises(OSError, match="no space left"):
            yield


AFTER_A_CRASH = {
    "first write": partial(_dies_at, os, "fsync", 0),
    "second write": partial(_dies_at, os, "fsync", 1),
    "first rename": partial(_dies_at, Path, "replace", 0),
    "second rename": partial(_dies_at, Path, "replace", 1),
}
"""Where the replacement of two files may die; each takes the test's `monkeypatch`."""
