"""Which containers an operator may forget. Pure."""

from __future__ import annotations

from penstock.control.errors import Conflict

LOST = "lost"
SILENT_SECONDS = 300.0


def require_forgettable(container: str, state: str, shards: int, silent_seconds: float) -> None:
    """Raises Conflict unless a container owns no shard, and is lost, or was silent for so long that only a Shard
    Manager that is away can have left it `live`."""
    if shards:
        raise Conflict(
            f"{container} owns {shards} shards: `penstock drain {container}` moves them, or wait until it is lost and "
            "they have moved",
            field="container",
            rule="owns_no_shard",
        )
    if state != LOST and silent_seconds < SILENT_SECONDS:
        raise Conflict(
            f"{container} is {state}, and was heard {silent_seconds:.0f} s ago: stop it first. It can be forgotten "
            "when it is lost",
            field="container",
            rule="lost",
        )
