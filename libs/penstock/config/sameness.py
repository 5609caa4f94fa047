"""Which fields of two stored configurations are the same, as a database finds it, and what such a difference costs.

`classify` compares two configurations; this judges a comparison that was made elsewhere, so that configurations of
thousands of jobs need not travel: jobs that differ alike are one `Sameness`, judged once. Kinds are the field table's.

Fields are compared in three ways. `TOP`: every field of `JobConfig` as a whole. `CLOSED`: the leaves of those that are
plain groups (`package.version`). `OPEN`: those with keys that users choose or that depend on the sink (`labels`,
`inputs`, `output`); of these the differing paths are told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.config.declare import ChangeKind
from penstock.config.fields import dotted
from penstock.config.tree import ROOT, FreeMap, Group, Leaf, Node, Path, find

# The greatest kind of a change that is committed without more ado.
GREATEST_SIMPLE = ChangeKind.RESTART


def _is_open(node: Node) -> bool:
    return isinstance(node, FreeMap) or (isinstance(node, Group) and node.discriminator is not None)


def _leaves(name: str, node: Node) -> tuple[Path, ...]:
    return tuple((name, leaf) for leaf in node.fields) if isinstance(node, Group) and not _is_open(node) else ()


TOP: tuple[str, ...] = tuple(ROOT.fields)
CLOSED: tuple[Path, ...] = tuple(path for name, node in ROOT.fields.items() for path in _leaves(name, node))
OPEN: tuple[str, ...] = tuple(name for name, node in ROOT.fields.items() if _is_open(node))


class OpenChange(NamedTuple):
    """A path below a field of `OPEN` that differs, and whether each side has it."""

    path: Path
    in_old: bool
    in_new: bool


class Sameness(NamedTuple):
    """Whether fields are the same, in the order of `TOP` and of `CLOSED`; None where a side does not have the field.

    `opened`: what differs below fields of `OPEN`.
    """

    top: tuple[bool | None, ...]
    closed: tuple[bool | None, ...]
    opened: tuple[OpenChange, ...]


class SimpleChange(NamedTuple):
    """A difference that needs no plan: its kind, and the dotted paths of its fields in order."""

    kind: ChangeKind
    fields: tuple[str, ...]


def simple_change(sameness: Sameness) -> SimpleChange | None:
    """What the difference is, as `classify` would say; None when it is not simple, or cannot be told from this."""
    kinds = dict(_kinds(sameness))
    if any(kind is None or kind > GREATEST_SIMPLE for kind in kinds.values()):
        return None
    known = [kind for kind in kinds.values() if kind is not None]
    return SimpleChange(max(known, default=ChangeKind.NONE), tuple(sorted(map(dotted, kinds))))


def _kinds(sameness: Sameness) -> Iterator[tuple[Path, ChangeKind | None]]:
    """The differing paths with their kinds; None: not to be judged from here."""
    told = {change.path[0] for change in sameness.opened}
    for name, same in zip(TOP, sameness.top, strict=True):
        node = ROOT.fields[name]
        if same is None or (same is False and name in OPEN and name not in told):
            yield (name,), None
        elif not same and isinstance(node, Leaf):
            yield (name,), node.row.change
    for path, same in zip(CLOSED, sameness.closed, strict=True):
        if not same:
            yield path, None if same is None else _leaf_kind(path)
    for change in sameness.opened:
        yield change.path, _open_kind(change)


def _leaf_kind(path: Path) -> ChangeKind | None:
    node = find(path)
    return node.row.change if isinstance(node, Leaf) else None


def _open_kind(change: OpenChange) -> ChangeKind | None:
    """An absent leaf of a group stands for its default, which is not looked up here; one of a free map for nothing."""
    if (change.in_old and change.in_new) or isinstance(find(change.path[:-1]), FreeMap):
        return _leaf_kind(change.path)
    return None


def opened(found: Sequence[tuple[Sequence[str], bool, bool]]) -> tuple[OpenChange, ...]:
    """Open changes from JSON: path, whether the old side has it, whether the new side has it."""
    return tuple(OpenChange(tuple(path), in_old, in_new) for path, in_old, in_new in found)
