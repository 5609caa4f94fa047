"""Valid job configurations for tests, as JSON, changed where the test says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.config.merge import apply_merge_patch

FLIGHTS = {
    "topic": "flights",
    "key_groups": 8,
    "value_schema": "dest STRING, carrier STRING, time TIMESTAMP, delay DOUBLE",
    "key_function": "kafka",
    "key_columns": ["dest"],
}


def job(changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A valid job that reads `flights` by key `dest` and joins the table `planes`, with a merge patch applied."""
    base = {
        "query": {"sql": "SELECT * FROM flights"},
        "inputs": {"flights": FLIGHTS},
        "tables": {"planes": {"path": "file:/planes"}},
        "output": {"type": "kafka", "topic": "clean"},
    }
    patched: dict[str, Any] = apply_merge_patch(base, changes or {})
    return patched
