"""The shape of `JobConfig` as a tree of nodes, read from the model's declarations once, at import.

Three kinds of node: a `Leaf` has a row of the field table; a `Group` has the fields of a model; a `FreeMap` has
keys that users choose (`inputs.*`, `labels.*`). The sinks of `output` share one group: a field that several sinks
have is one leaf, and `only_for` says which sinks have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import reduce
from operator import or_
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.fields import FieldInfo

from penstock.config.declare import ChangeKind
from penstock.config.jsontype import readable_type
from penstock.config.model import JobConfig

Path = tuple[str, ...]
ANY_KEY = "*"


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A row of the field table.

    `path` is dotted with `*` for keys that users choose. `default` is JSON, and meaningless when `required`.
    `layers` are the layers that may set the field, as `penstock.config.declare.declare` writes them. `only_for`
    names the types of output that have the field; empty for fields of every job.
    """

    path: str
    type: str
    unit: str | None
    default: Any
    required: bool
    documentation: str
    layers: tuple[str, ...]
    change: ChangeKind
    only_for: tuple[str, ...] = ()

    def may_be_set_by(self, layer: str) -> bool:
        """Whether the layer may set the field; a layer that is not named is judged by `*`."""
        return layer in self.layers or (ANY_KEY in self.layers and f"!{layer}" not in self.layers)

    def as_json(self) -> dict[str, Any]:
        """The row as a JSON object, the change kind by its lower case name."""
        return {
            **asdict(self),
            "change": self.change.name.lower(),
            "layers": list(self.layers),
            "only_for": list(self.only_for),
        }


@dataclass(frozen=True, slots=True)
class Leaf:
    """A field with a value: its row, and the validator of the value alone."""

    row: FieldRow
    annotation: Any
    adapter: TypeAdapter[Any]


@dataclass(frozen=True, slots=True)
class Group:
    """The fields of a model, by name. `discriminator` names the field that says which of them apply."""

    fields: Mapping[str, Node]
    discriminator: str | None = None


@dataclass(frozen=True, slots=True)
class FreeMap:
    """A map with keys that users choose, each checked by `key`."""

    element: Node
    key: TypeAdapter[Any]


Node = Leaf | Group | FreeMap


def child(node: Node, key: str) -> Node | None:
    """The node below `node` at `key`; None when there is none."""
    match node:
        case Group():
            return node.fields.get(key)
        case FreeMap():
            return node.element
    return None


def find(path: Path) -> Node | None:
    """The node of a concrete path such as `("inputs", "flights", "topic")`; None for an unknown field."""
    node: Node | None = ROOT
    for key in path:
        node = child(node, key) if node is not None else None
    return node


def rows(node: Node) -> Iterator[FieldRow]:
    """The rows of all leaves below a node, in the model's order."""
    match node:
        case Leaf():
            yield node.row
        case Group():
            for field in node.fields.values():
                yield from rows(field)
        case FreeMap():
            yield from rows(node.element)


def default_of(node: Node, sink: Any) -> Any:
    """The JSON value that an absent `node` stands for: a leaf's default, `{}` for maps.

    `sink` is the job's `output.type`: a leaf of other sinks has no default. Groups stand for the defaults of their
    fields, which the callers reach by walking into `{}`.
    """
    if not isinstance(node, Leaf):
        return {}
    return None if node.row.only_for and sink not in node.row.only_for else node.row.default


def build_tree(model: type[BaseModel]) -> Group:
    """The tree of a model. Raises TypeError for a field without a declaration."""
    return _group(model, ())


def _group(model: type[BaseModel], path: Path) -> Group:
    return Group({name: _field(info, (*path, name)) for name, info in model.model_fields.items()})


def _field(info: FieldInfo, path: Path) -> Node:
    annotation = info.annotation
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _group(annotation, path)
    if get_origin(annotation) is dict:
        return _free_map(info, path)
    if info.discriminator is not None:
        return _variants(get_args(annotation), str(info.discriminator), path)
    return _leaf(info, annotation, info.metadata, path)


def _free_map(info: FieldInfo, path: Path) -> FreeMap:
    key, value = get_args(info.annotation)
    below = (*path, ANY_KEY)
    is_model = isinstance(value, type) and issubclass(value, BaseModel)
    return FreeMap(_group(value, below) if is_model else _leaf(info, value, [], below), _adapter(key))


def _variants(models: tuple[type[BaseModel], ...], discriminator: str, path: Path) -> Group:
    groups = [_only_for(_group(model, path), model.model_fields[discriminator].default) for model in models]
    merged: dict[str, Leaf] = reduce(_join_variants, groups, {})
    kind = merged[discriminator]
    # The one field whose default cannot be used: without it nobody knows which sink is meant.
    merged[discriminator] = replace(kind, row=replace(kind.row, required=True, default=None, only_for=()))
    return Group(merged, discriminator)


def _only_for(group: Group, variant: str) -> dict[str, Leaf]:
    flat = {name: leaf for name, leaf in group.fields.items() if isinstance(leaf, Leaf)}
    if len(flat) != len(group.fields):
        raise TypeError(f"the variants of a union may have plain fields only: {variant}")
    return {name: replace(leaf, row=replace(leaf.row, only_for=(variant,))) for name, leaf in flat.items()}


def _join_variants(known: dict[str, Leaf], variant: dict[str, Leaf]) -> dict[str, Leaf]:
    joined = {name: _join(known[name], leaf) if name in known else leaf for name, leaf in variant.items()}
    return {**known, **joined}


def _join(one: Leaf, other: Leaf) -> Leaf:
    """One leaf for a field that two variants have; they must agree on all but type and documentation."""
    if (one.row.change, one.row.layers, one.row.unit) != (other.row.change, other.row.layers, other.row.unit):
        raise TypeError(f"{one.row.path} is declared differently by {one.row.only_for} and {other.row.only_for}")
    annotation = reduce(or_, (one.annotation, other.annotation))
    documentation = (one.row.documentation, other.row.documentation)
    row = replace(
        one.row,
        type=readable_type(_adapter(annotation).json_schema()),
        documentation="; ".join(dict.fromkeys(documentation)),
        only_for=one.row.only_for + other.row.only_for,
    )
    return Leaf(row, annotation, _adapter(annotation))


def _leaf(info: FieldInfo, annotation: Any, metadata: list[Any], path: Path) -> Leaf:
    constrained = Annotated[(annotation, *metadata)] if metadata else annotation
    adapter = _adapter(constrained)
    declared = _declaration(info, path)
    in_free_map = path[-1] == ANY_KEY
    required = in_free_map or info.is_required()
    default = None if required else adapter.dump_python(info.get_default(call_default_factory=True), mode="json")
    row = FieldRow(
        path=".".join(path),
        type=readable_type(adapter.json_schema()),
        unit=declared["unit"],
        default=default,
        required=required and not in_free_map,
        documentation=" ".join((info.description or "").split()),
        layers=tuple(declared["layers"]),
        change=ChangeKind[declared["change"].upper()],
    )
    return Leaf(row, constrained, adapter)


def _declaration(info: FieldInfo, path: Path) -> dict[str, Any]:
    extra = info.json_schema_extra
    declared = extra.get("penstock") if isinstance(extra, dict) else None
    if not isinstance(declared, dict):
        raise TypeError(f"{'.'.join(path)} is not declared: give its Field `**declare(...)`")
    return declared


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation, config=ConfigDict(allow_inf_nan=False))


ROOT = build_tree(JobConfig)
