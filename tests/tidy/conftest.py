"""The repository, read once for all rules."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.tidy.source import Tree, nodes, parse, read_repository


@pytest.fixture(scope="package")
def repository() -> Iterator[Tree]:
    """The whole tree. Its syntax trees are a million objects: the collector of garbage would look at them all the time,
    and at those that stay it would for the rest of this process."""
    gc.disable()
    yield read_repository()
    for cached in (parse, nodes):
        cached.cache_clear()
    gc.enable()
