"""What a change of configuration costs: the differing leaves, each with its change kind from the field table.

The kind of a difference is the greatest kind of its fields. Absent fields count as their defaults, so writing a
default out changes nothing. A change of the query's text is `restart`: whether the old state still fits the new
query is Spark's to check, when the restarted task reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.config.model import ChangeKind, JobConfig
from penstock.config.stream_keys import moved_by
from penstock.config.tree import Entry, Path, dotted, entries

Config = JobConfig | Mapping[str, Any]
ARGS = "args"
INSTEAD = (
    "Neither its checkpoints nor its savepoints fit the change. Put the new value into a copy of this job's file, with "
    "starting_position earliest, and with other outputs where rows must not come twice. Then: `penstock jobs apply "
    "NEW FILE --wait`. Once it has caught up: `penstock jobs delete JOB` (`--yes` where others read what it "
    "writes)"
)
"""What to do for a change that a job which has run cannot take."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A leaf that differs. `old` and `new` are JSON values; None where the field is absent."""

    path: Path
    old: Any
    new: Any
    kind: ChangeKind

    @property
    def field(self) -> str:
        return dotted(self.path)

    @property
    def never_fits(self) -> bool:
        """Whether no checkpoint fits the change: `forbidden`, or fewer key groups, since no topic shrinks."""
        shrinks = self.path[0] == "inputs" and self.path[-1] == "key_groups" and _is_less(self.new, self.old)
        return self.kind is ChangeKind.FORBIDDEN or shrinks

    def as_json(self) -> dict[str, Any]:
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


FILES = "files"
_OF_FORM = (("format",), ("header",), ("csv",), ("timestamp_format",))


def form_changes(difference: Difference, sink: str) -> tuple[FieldChange, ...]:
    """The changes that would put files of two forms into one folder, so that nobody could read it: of the format of a
    `files` output, or of how its CSV or its times are written, without another path. Each file says how it is
    compressed. `sink`: the type of the output; a topic may have records of two forms."""
    changed = {change.path for change in difference.fields}
    if sink != FILES or ("output", "path") in changed or ("output", "type") in changed:
        return ()
    return tuple(change for change in difference.fields if _is_of_form(change.path))


def _is_of_form(path: Path) -> bool:
    return path[0] == "output" and path[1:2] in _OF_FORM and path[-1] != "compression"


NO_DIFFERENCE = Difference(ChangeKind.NONE, ())


def classify(running: Config, expected: Config) -> Difference:
    """The difference that brings `running` to `expected`; both full configurations, as models or as JSON maps.

    Equal configurations cost one comparison.
    """
    if running is expected:
        return NO_DIFFERENCE
    old, new = _as_json(running), _as_json(expected)
    if old == new and _types(old.get(ARGS)) == _types(new.get(ARGS)):
        return NO_DIFFERENCE
    fields = _unequal_fields(old, new)
    before, after = ({entry.path: entry for entry in entries(config, fields)} for config in (old, new))
    changes = tuple(_keeping_keys(_changes(before, after), old, new))
    return Difference(max((change.kind for change in changes), default=ChangeKind.NONE), changes)


def _keeping_keys(
    changes: Iterator[FieldChange], old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[FieldChange]:
    """What moves rows of a stream to other key groups fits no checkpoint."""
    before, after = (config.get("streams") or {} for config in (old, new))
    both = before.keys() & after.keys()
    moving = {("streams", name, field) for name in both for field in moved_by(before[name], after[name])}
    for change in changes:
        yield replace(change, kind=ChangeKind.FORBIDDEN) if change.path[:3] in moving else change


def _is_less(new: Any, old: Any) -> bool:
    return isinstance(new, int) and isinstance(old, int) and new < old


def _as_json(config: Config) -> Mapping[str, Any]:
    return config.model_dump(mode="json") if isinstance(config, JobConfig) else config


def _unequal_fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The top-level fields whose leaves are to be compared."""
    both = dict.fromkeys((*old, *new))
    return [key for key in both if key == ARGS or key not in old or key not in new or old[key] != new[key]]


def _types(args: Any) -> Any:
    return {name: type(value) for name, value in args.items()} if isinstance(args, dict) else None


def _changes(before: Mapping[Path, Entry], after: Mapping[Path, Entry]) -> Iterator[FieldChange]:
    for path, entry in {**before, **after}.items():
        # A field of a sink has no default where there is no such output.
        default = None if entry.leaf is None or entry.leaf.row.only_for else entry.leaf.row.default
        old, new = (side[path].value if path in side else default for side in (before, after))
        # Python holds 1, 1.0 and True equal; only in `args`, whose type is free, does that matter.
        if old != new or (path[0] == ARGS and type(old) is not type(new)):
            # A field this version does not know can only be left over from another: restart to be rid of it.
            yield FieldChange(path, old, new, ChangeKind.RESTART if entry.leaf is None else entry.leaf.row.change)
