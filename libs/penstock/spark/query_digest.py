"""What a query does with a row, as a digest. While it stays, the pace of its batches is kept (`SourcePace.java`)."""

from __future__ import annotations

import hashlib
import json

from penstock.config.model import JobConfig

_COSTS = {"package", "query", "args", "inputs", "streams", "tables", "output", "side_outputs", "spark_settings"}


def query_digest(config: JobConfig) -> str:
    """The same for two configurations in which a row costs about the same: of what a row is made of, what is done with
    it, and where it goes. Not of the number of tasks or of limits of batches. Pure."""
    told = json.dumps(config.model_dump(mode="json", include=_COSTS), sort_keys=True)
    return hashlib.md5(told.encode(), usedforsecurity=False).hexdigest()[:16]
