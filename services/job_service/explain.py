"""Where each leaf of a job's configuration comes from: value, layer, version, author, time, reason, what it hides.

Fields that no layer sets are listed too, with the layer `default`. A layer that leaves a group of fields empty sets
nothing: the group is listed by its fields. A map whose keys users choose is a value, so an empty one is listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from penstock.config.merge import LayerConfig, Said, merge, merge_with_provenance
from penstock.config.tree import Path, default_of, dotted, entries, row_for
from penstock.wire.jobs import ExplainedLeafView, HiddenValueView, HistoryEntry
from services.job_service.origins import Origins

DEFAULT_LAYER = "default"
BOUNDS = "key_group_bounds"


def explain(layers: Sequence[LayerConfig], origins: Origins = MappingProxyType({})) -> list[ExplainedLeafView]:
    """Every leaf of the merged configuration and every default, sorted by path.

    A leaf of which `origins` has no write is told with the newest write of its layer. `hides` lists the nearest layer
    first. Raises ValueError when two layers have the same rank.
    """
    lowest = min((layer.rank for layer in layers), default=0)
    defaults = LayerConfig(DEFAULT_LAYER, lowest - 1, None, _defaults(merge(layers)))
    merged, provenance = merge_with_provenance([defaults, *layers])
    ignored = why_ignored(merged)
    return [
        _explained(
            path, source, hidden, ignored if path == (BOUNDS,) else None, origins.get((source.layer.name, source.path))
        )
        for path, (source, *hidden) in sorted(provenance.items())
    ]


def why_ignored(merged: Mapping[str, Any]) -> str | None:
    """Why the bounds of merged layers do not count, for people; None when they do, or there are none."""
    bounds, count = merged.get(BOUNDS), merged.get("task_count", 1)
    if not isinstance(bounds, list) or not isinstance(count, int) or len(bounds) == count - 1:
        return None
    return f"for {len(bounds) + 1} tasks, and the job has {count}: ranges are even"


def _defaults(merged: Mapping[str, Any]) -> dict[str, Any]:
    """All defaults of a configuration, as if a layer set them."""
    defaults: dict[str, Any] = {}
    for entry in entries(merged):
        if entry.leaf is not None and entry.leaf.row.has_default(entry.sink):
            *groups, name = entry.path
            below = defaults
            for group in groups:
                below = below.setdefault(group, {})
            below[name] = default_of(entry.leaf, entry.sink)
    return defaults


def _explained(
    path: Path, source: Said, hidden: Iterable[Said], ignored: str | None, write: HistoryEntry | None
) -> ExplainedLeafView:
    layer, row = source.layer, row_for(path)
    return ExplainedLeafView(
        field=dotted(path),
        path=list(path),
        value=source.value,
        layer=layer.name,
        change=None if row is None else row.change.name.lower(),
        version=layer.version if write is None else write.version,
        revision=layer.revision if write is None else write.revision,
        author=layer.author if write is None else write.author,
        reason=layer.reason if write is None else write.reason,
        written_at=layer.written_at if write is None else write.at,
        expires_at=layer.expires_at,
        hides=[
            HiddenValueView(
                layer=said.layer.name, version=said.layer.version, field=dotted(said.path), value=said.value
            )
            for said in hidden
        ],
        ignored=ignored,
    )
