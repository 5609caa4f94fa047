"""What a change of configuration costs: the differing leaves, each with its change kind from the field table.

The kind of a difference is the greatest kind of its fields. Absent fields count as their defaults, so writing a
default out changes nothing. A change of the query's text is `restart`: whether the old state still fits the new
query is Spark's to check, when the restarted task reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.config.fields import dotted
from penstock.config.model import ChangeKind, JobConfig
from penstock.config.tree import ROOT, Leaf, Node, Path, child, default_of

Config = JobConfig | Mapping[str, Any]
ARGS = "args"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A leaf that differs. `old` and `new` are JSON values; None where the field is absent."""

    path: Path
    old: Any
    new: Any
    kind: ChangeKind

    @property
    def field(self) -> str:
        """The dotted path."""
        return dotted(self.path)

    def as_json(self) -> dict[str, Any]:
        """The change as a JSON object."""
        return {"field": self.field, "old": self.old, "new": self.new, "kind": self.kind.name.lower()}


@dataclass(frozen=True, slots=True)
class Difference:
    """All differing leaves, and the greatest of their kinds (`NONE` without any)."""

    kind: ChangeKind
    fields: tuple[FieldChange, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The dotted paths of the fields that differ, in order."""
        return tuple(sorted(change.field for change in self.fields))

    def only(self, kind: ChangeKind) -> Difference:
        """The part that is of this kind."""
        return Difference(kind, tuple(change for change in self.fields if change.kind is kind))


NO_DIFFERENCE = Difference(ChangeKind.NONE, ())


def classify(running: Config, expected: Config) -> Difference:
    """The difference that brings `running` to `expected`; both full configurations, as models or as JSON maps.

    Equal configurations cost one comparison; otherwise only maps that differ are walked.
    """
    if running is expected:
        return NO_DIFFERENCE
    old, new = _as_json(running), _as_json(expected)
    if old == new and _types(old.get(ARGS)) == _types(new.get(ARGS)):
        return NO_DIFFERENCE
    sinks = sink_of(old), sink_of(new)
    changes = tuple(_changes(ROOT, old, new, (), sinks))
    return Difference(max((change.kind for change in changes), default=ChangeKind.NONE), changes)


def _as_json(config: Config) -> Mapping[str, Any]:
    return config.model_dump(mode="json") if isinstance(config, JobConfig) else config


def sink_of(config: Mapping[str, Any]) -> Any:
    """The type of the job's output, on which defaults depend."""
    output = config.get("output")
    return output.get("type") if isinstance(output, dict) else None


def _types(args: Any) -> Any:
    return {name: type(value) for name, value in args.items()} if isinstance(args, dict) else None


def _changes(node: Node | None, old: Any, new: Any, path: Path, sinks: tuple[Any, Any]) -> Iterator[FieldChange]:
    maps = isinstance(old, dict) and isinstance(new, dict)
    if _same(old, new, path, maps):
        return
    if not maps:
        # A field this version does not know can only be left over from another version: restart to be rid of it.
        yield FieldChange(path, old, new, node.row.change if isinstance(node, Leaf) else ChangeKind.RESTART)
        return
    for key in dict.fromkeys((*old, *new)):
        if key in old and key in new and _same(old[key], new[key], (*path, key), True):
            continue  # most are: cheaper than going there
        below = child(node, key) if node is not None else None
        old_value, new_value = _value(below, old, key, sinks[0]), _value(below, new, key, sinks[1])
        yield from _changes(below, old_value, new_value, (*path, key), sinks)


def _same(old: Any, new: Any, path: Path, maps: bool) -> bool:
    """Equal as JSON. Python holds 1, 1.0 and True equal; only in `args`, whose type is free, does that matter."""
    if path and path[0] != ARGS:
        return bool(old == new)
    return not maps and type(old) is type(new) and bool(old == new)


def _value(node: Node | None, side: dict[str, Any], key: str, sink: Any) -> Any:
    if key in side or node is None:
        return side.get(key)
    return default_of(node, sink)
