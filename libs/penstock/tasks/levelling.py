"""Whether tasks of a job that are behind the others read on before the stop of a rescale. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def levels_while_running(config: Mapping[str, Any]) -> bool:
    """By the configuration that the tasks run with, as JSON. Tasks of other jobs are levelled after the stop, or, with
    `completeness: drop_late`, not at all."""
    return bool(config.get("completeness", "wait") == "wait")
