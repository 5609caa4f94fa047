"""Which write gave each field of a layer its present value: a layer has the author of its newest write only. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from penstock.config.merge import leaves
from penstock.config.tree import Path
from penstock.wire.jobs import HistoryEntry

Origins = Mapping[tuple[str, Path], HistoryEntry]
"""By layer and path of a leaf; one whose write is not known is left out."""
_ABSENT = object()


def origins_in(config: Mapping[str, Any], writes: Iterable[HistoryEntry]) -> Iterator[tuple[Path, HistoryEntry]]:
    """The writes of the leaves of a layer, whose present content is `config`. `writes`: those of the layer, the newest
    first, of which no more are read than needed."""
    wanted = dict(leaves(config))
    for write in writes if wanted else ():
        before = dict(leaves(write.old or {}))
        for path, value in list(wanted.items()):
            if before.get(path, _ABSENT) != value:
                del wanted[path]
                yield path, write
        if not wanted:
            return
