"""Task to shard: `md5(task id) mod shard_count` (002 section IV-A1), the same on every machine and for ever."""

from __future__ import annotations

import hashlib


def shard_of(task_id: str, shard_count: int) -> int:
    """The shard of a task, in `range(shard_count)`."""
    digest = hashlib.md5(task_id.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest, "big") % shard_count
