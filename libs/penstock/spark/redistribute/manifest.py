"""What a copy of a running job's state says of itself: `COPIED` in the folder of the new generation.

It is the last file that the copy writes. The redistribution into the same generation deletes it before it writes
anything, so a copy is used at most once.
"""

from __future__ import annotations

from pydantic import ValidationError

from penstock.config.declare import Carried
from penstock.control.logs import logger
from penstock.spark.redistribute.keys import KeyFunction
from penstock.spark.redistribute.stores import StateStoreInfo
from penstock.tasks.redistribution import Layout

log = logger(__name__)

MANIFEST = "COPIED"
_MARK = "COPY."


class CopyManifest(Carried):
    """A finished, verified copy. The stores of `target`, at their version `version`, hold the state that each source
    task had after the versions `copied` (by index; 0: no finished batch). `rows`: number of rows copied. `id`: of
    this attempt; `mark_of` it is in each checkpoint that has its stores.
    """

    source: Layout
    target: Layout
    version: int
    copied: tuple[int, ...]
    stores: tuple[StateStoreInfo, ...]
    keys: dict[int, KeyFunction]
    rows: int
    id: str = ""

    def misfit(
        self, source: Layout, target: Layout, versions: tuple[int, ...], stores: tuple[StateStoreInfo, ...]
    ) -> str | None:
        """Why the changes up to `versions` cannot be brought to the copy; None when they can. Pure."""
        if (self.source, self.target) != (source, target):
            return "it is of another configuration"
        if self.stores != stores:
            return "the query has other state stores"
        if len(self.copied) != len(versions) or any(
            now < then for now, then in zip(versions, self.copied, strict=False)
        ):
            return "an old task is not as far as it was"
        return None


def mark_of(copy_id: str) -> str:
    """The name of an empty file in the checkpoints whose stores are this copy, up to its version. Whoever does not use
    the copy clears the checkpoints, and the file goes with the stores."""
    return f"{_MARK}{copy_id}"


def parse_manifest(content: bytes) -> CopyManifest | None:
    """None for a text that is no manifest: then all state is copied again."""
    try:
        return CopyManifest.model_validate_json(content)
    except ValidationError as error:
        log.warning("the manifest of a copy cannot be read", error=str(error))
        return None
