"""What a merged configuration depends on besides the layers' contents: their order, and the model's fields."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from penstock.config.model import JobConfig

_SCHEMA = json.dumps(JobConfig.model_json_schema(), sort_keys=True)
MODEL_FINGERPRINT: str = hashlib.sha256(_SCHEMA.encode()).hexdigest()[:16]


def merge_basis(layers: Iterable[str]) -> str:
    """The basis of merges of `layers`, all of the cell, lowest rank first. A merge on another basis may be another."""
    return f"{MODEL_FINGERPRINT} {' < '.join(layers)}"
