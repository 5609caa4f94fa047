"""Whether the paths of a job are below the cell's roots, as a host sees them: with links resolved.

A write was checked already (`penstock.config.paths`), but by the text of its paths, and perhaps with other roots.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame

from penstock.config.model import JobConfig
from penstock.config.paths import RULE, is_below, outside, path_fields, place_of
from penstock.control.errors import BrokenTask


def require_allowed_paths(config: JobConfig, roots: Sequence[str]) -> None:
    """Raises BrokenTask when a table or an output of the job is, or leads, outside all roots. Before it is used."""
    for field, path in path_fields(config):
        require_allowed(field, path, roots)


def require_allowed(field: str, path: str, roots: Sequence[str]) -> None:
    """Raises BrokenTask when the path of a field is, or leads, outside all roots."""
    if not is_below(path, roots) or not _is_really_below(path, roots):
        problem = outside(field, path, roots)
        raise BrokenTask(problem.detail, rule=RULE)


def require_files_allowed(field: str, frame: DataFrame, roots: Sequence[str]) -> None:
    """Raises BrokenTask when a file of a table, which may be a link in its folder, leads outside all roots."""
    for path in _local_files(frame):
        if not _is_really_below(path, roots):
            raise BrokenTask(outside(field, path, roots).detail, rule=RULE)


def _is_really_below(path: str, roots: Sequence[str]) -> bool:
    """In both readings of the path, as `penstock.config.paths.is_below`: each may be a link."""
    return all(_leads_below(each, roots) for each in {path, unquote(path)})


def _leads_below(path: str, roots: Sequence[str]) -> bool:
    place = place_of(path)
    if place is None or not place.is_local:
        return place is not None
    real = Path(place.path).resolve()
    found = [each for root in roots if (each := place_of(root)) is not None and each.is_local]
    return any(real != top and real.is_relative_to(top) for top in (Path(each.path).resolve() for each in found))


def _local_files(frame: DataFrame) -> list[str]:
    """The local files that a batch frame reads, as Spark listed them."""
    java: Any = frame._jdf
    jvm: Any = frame.sparkSession._jvm
    uri = jvm.java.net.URI
    return [str(uri(each).getPath()) for each in java.inputFiles() if each.startswith("file:")]
