"""Where each leaf of a job's configuration comes from: value, layer, version, author, time, reason, what it hides.

Fields that no layer sets are listed too, with the layer `default`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from penstock.config.bounds import FIELD, why_ignored
from penstock.config.fields import dotted, row_for
from penstock.config.merge import Hidden, LayerConfig, Provenance, merge_with_provenance
from penstock.config.tree import ROOT, FreeMap, Group, Leaf, Node, Path, child, default_of

DEFAULT_LAYER = "default"


@dataclass(frozen=True, slots=True)
class HiddenValue:
    """A value that would come back if the layers above it let go of the leaf. No version for a default."""

    layer: str
    version: int | None
    field: str
    value: Any


@dataclass(frozen=True, slots=True)
class ExplainedLeaf:
    """One leaf. All but path, value and change is that of the layer that set it; None for defaults.

    `change` is the change kind's lower case name, None for a field this version does not know. `hides` lists the
    nearest layer first. `ignored` says why the value does not count, None when it does.
    """

    path: Path
    value: Any
    layer: str
    change: str | None
    version: int | None = None
    revision: int | None = None
    author: str | None = None
    reason: str | None = None
    written_at: datetime | None = None
    expires_at: datetime | None = None
    hides: tuple[HiddenValue, ...] = ()
    ignored: str | None = None

    @property
    def field(self) -> str:
        """The dotted path."""
        return dotted(self.path)

    def as_json(self) -> dict[str, Any]:
        """The leaf as a JSON object; times in ISO 8601."""
        return {
            "field": self.field,
            "path": list(self.path),
            "value": self.value,
            "layer": self.layer,
            "change": self.change,
            "version": self.version,
            "revision": self.revision,
            "author": self.author,
            "reason": self.reason,
            "written_at": self.written_at.isoformat() if self.written_at else None,
            "expires_at": self.expires_at.isoformat() if self.expires_at else None,
            "hides": [
                {"layer": hidden.layer, "version": hidden.version, "field": hidden.field, "value": hidden.value}
                for hidden in self.hides
            ],
            "ignored": self.ignored,
        }


def explain(layers: Sequence[LayerConfig]) -> tuple[ExplainedLeaf, ...]:
    """Every leaf of the merged configuration and every default, sorted by path.

    Raises ValueError when two layers have the same rank.
    """
    merged, provenance = merge_with_provenance(layers)
    output = merged.get("output")
    sink = output.get("type") if isinstance(output, dict) else None
    defaults = dict(_defaults(ROOT, merged, (), sink))
    explained = [_set_leaf(path, found, defaults.get(path)) for path, found in provenance.items()]
    explained += [_default_leaf(path, value) for path, (value, is_set) in defaults.items() if not is_set]
    found = [replace(leaf, ignored=why_ignored(merged)) if leaf.path == (FIELD,) else leaf for leaf in explained]
    return tuple(sorted(found, key=lambda leaf: leaf.path))


def _defaults(node: Node, config: Any, path: Path, sink: Any) -> Iterator[tuple[Path, tuple[Any, bool]]]:
    """The leaves below `node` that have a default: path to (default, whether a layer sets the leaf)."""
    present = isinstance(config, Mapping)
    for key in _keys(node, config if present else {}):
        below = child(node, key)
        is_set = present and key in config
        if isinstance(below, Leaf):
            if _has_default(below, sink):
                yield (*path, key), (default_of(below, sink), is_set)
        elif below is not None:
            yield from _defaults(below, config[key] if is_set else {}, (*path, key), sink)


def _keys(node: Node, config: Mapping[str, Any]) -> list[str]:
    """The fields of a group, whether set or not; of a free map the keys there are."""
    if isinstance(node, Group):
        return list(node.fields)
    return list(config) if isinstance(node, FreeMap) and not isinstance(node.element, Leaf) else []


def _has_default(leaf: Leaf, sink: Any) -> bool:
    row = leaf.row
    return not row.required and (not row.only_for or sink in row.only_for)


def _set_leaf(path: Path, found: Provenance, default: tuple[Any, bool] | None) -> ExplainedLeaf:
    layer = found.layer
    return ExplainedLeaf(
        path=path,
        value=found.value,
        layer=layer.name,
        change=_change(path),
        version=layer.version,
        revision=layer.revision,
        author=layer.author,
        reason=layer.reason,
        written_at=layer.written_at,
        expires_at=layer.expires_at,
        hides=(*(_hidden(hidden) for hidden in found.hides), *_hidden_default(path, default)),
    )


def _default_leaf(path: Path, value: Any) -> ExplainedLeaf:
    return ExplainedLeaf(path=path, value=value, layer=DEFAULT_LAYER, change=_change(path))


def _hidden(hidden: Hidden) -> HiddenValue:
    layer: LayerConfig = hidden.layer
    return HiddenValue(layer.name, layer.version, dotted(hidden.path), hidden.value)


def _hidden_default(path: Path, default: tuple[Any, bool] | None) -> tuple[HiddenValue, ...]:
    return () if default is None else (HiddenValue(DEFAULT_LAYER, None, dotted(path), default[0]),)


def _change(path: Path) -> str | None:
    row = row_for(path)
    return None if row is None else row.change.name.lower()
