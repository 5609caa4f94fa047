"""The shape of `JobConfig` as a tree of nodes, read from the model's declarations once, at import, and the field table.

Three kinds of node: a `Leaf` has a row of the field table; a `Group` has the fields of a model; a `FreeMap` has
keys that users choose (`inputs.*`, `labels.*`). The sinks of an output share one group: a field that several sinks
have is one leaf, and `only_for` says which sinks have it.

`GET /v1/fields`, CLI help, layer checks and the classifier all read the field table, which has a row for each leaf.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial, reduce
from operator import or_
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.fields import FieldInfo

from penstock.config.declare import ChangeKind
from penstock.config.model import JobConfig
from penstock.config.pattern_words import words_of

Path = tuple[str, ...]
ANY_KEY = "*"
_WORDS = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "true or false",
    "null": "nothing",
}


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

    def has_default(self, sink: Any) -> bool:
        """Whether an output of this type has the field when no layer sets it."""
        return not self.required and not self.path.endswith(ANY_KEY) and (not self.only_for or sink in self.only_for)

    def as_json(self) -> dict[str, Any]:
        """The row as a JSON object, the change kind by its lower case name."""
        return {**asdict(self), "change": self.change.name.lower()}


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


def row_for(path: Path) -> FieldRow | None:
    """The row of a concrete path, such as `("inputs", "flights", "topic")`; None for unknown fields and for maps.

    A free map of plain values (`args`, `labels`, `container_labels`) that is empty is itself a leaf of a
    configuration: it has the row of its values.
    """
    node = find(path)
    if isinstance(node, FreeMap) and isinstance(node.element, Leaf):
        return node.element.row
    return node.row if isinstance(node, Leaf) else None


def dotted(path: Path) -> str:
    """A path for people: `inputs.flights.topic`. Keys may hold dots themselves, so programs keep the tuple."""
    return ".".join(path)


class Entry(NamedTuple):
    """A leaf of a configuration. `leaf` None: this version does not know the field. Where the configuration does not
    set the leaf, `is_set` is False and `value` is the default. `sink`: the type of the output that it is a field of;
    None elsewhere."""

    path: Path
    leaf: Leaf | None
    value: Any
    is_set: bool
    sink: Any = None


def entries(config: Mapping[str, Any], fields: Iterable[str] | None = None) -> list[Entry]:
    """All leaves of a configuration, given as JSON, also those that it does not set.

    `fields`: only leaves below these top-level fields, each of which the model or the configuration has.
    """
    found: list[Entry] = []
    keys = (*ROOT.fields, *config) if fields is None else fields
    _add(found, (), {key: ROOT.fields.get(key) for key in keys}, config, None)
    return found


# Every write walks through a whole configuration: one call for each map, and none for a leaf that is set.
def _add(
    found: list[Entry], path: Path, nodes: Mapping[str, Node | None], within: Mapping[str, Any], sink: Any
) -> None:
    """Adds the leaves at and below the nodes, by name, of the map `within` at a path."""
    for key, node in nodes.items():
        is_set = key in within
        value = within[key] if is_set else default_of(node, sink)
        below = (*path, key)
        if type(node) is Leaf:
            found.append(_make_entry((below, node, value, is_set, sink)))
        elif node is None or not isinstance(value, dict):
            found.append(_make_entry((below, None, value, is_set, sink)))
        elif type(node) is Group:
            unknown = {name: None for name in value if name not in node.fields}
            fields = {**node.fields, **unknown} if unknown else node.fields
            _add(found, below, fields, value, sink if node.discriminator is None else value.get(node.discriminator))
        else:
            assert type(node) is FreeMap
            _add(found, below, dict.fromkeys(value, node.element), value, sink)


_make_entry = partial(tuple.__new__, Entry)


def default_of(node: Node | None, sink: Any) -> Any:
    """The JSON value that an absent node stands for: a leaf's default, `{}` for maps and groups.

    `sink` is the type of the output: a leaf of other sinks has no default, nor has a field this version does not know.
    """
    if not isinstance(node, Leaf):
        return None if node is None else {}
    return node.row.default if node.row.has_default(sink) else None


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
    variants: dict[str, dict[str, Node]] = {}
    for model in models:
        for name, info in model.model_fields.items():
            node = _field(info, (*path, name))
            variants.setdefault(name, {})[model.model_fields[discriminator].default] = node
    fields = {name: _shared(nodes) for name, nodes in variants.items()}
    kind = fields[discriminator]
    assert isinstance(kind, Leaf)
    # The one field whose default cannot be used: without it nobody knows which sink is meant.
    fields[discriminator] = replace(kind, row=replace(kind.row, required=True, default=None, only_for=()))
    return Group(fields, discriminator)


def _shared(nodes: Mapping[str, Node]) -> Node:
    """One node for a field of several variants: a value in all of them, or a model with fields in all of them."""
    leaves = {variant: node for variant, node in nodes.items() if isinstance(node, Leaf)}
    if len(leaves) == len(nodes):
        return _shared_leaf(leaves)
    below: dict[str, dict[str, Node]] = {}
    for variant, node in nodes.items():
        assert isinstance(node, Group)
        for name, field in node.fields.items():
            below.setdefault(name, {})[variant] = field
    return Group({name: _shared(fields) for name, fields in below.items()})


def _shared_leaf(leaves: Mapping[str, Leaf]) -> Leaf:
    """One leaf for a field of several variants; they must agree on all but type and documentation."""
    first = next(iter(leaves.values()))
    if len({(leaf.row.change, leaf.row.layers, leaf.row.unit) for leaf in leaves.values()}) > 1:
        raise TypeError(f"{first.row.path} is declared differently by {', '.join(leaves)}")
    annotation = reduce(or_, (leaf.annotation for leaf in leaves.values()))
    adapter = _adapter(annotation)
    row = replace(
        first.row,
        type=_readable_type(adapter.json_schema()),
        documentation="; ".join(dict.fromkeys(leaf.row.documentation for leaf in leaves.values())),
        only_for=tuple(leaves),
    )
    return Leaf(row, annotation, adapter)


def _leaf(info: FieldInfo, annotation: Any, metadata: list[Any], path: Path) -> Leaf:
    constrained = Annotated[(annotation, *metadata)] if metadata else annotation
    adapter = _adapter(constrained)
    declared = _declaration(info, path)
    in_free_map = path[-1] == ANY_KEY
    required = in_free_map or info.is_required()
    default = None if required else adapter.dump_python(info.get_default(call_default_factory=True), mode="json")
    row = FieldRow(
        path=".".join(path),
        type=_readable_type(adapter.json_schema()),
        unit=declared["unit"],
        default=default,
        required=required and not in_free_map,
        documentation=" ".join((info.description or "").split()),
        layers=tuple(declared["layers"]),
        change=_change_kind(declared, path),
    )
    return Leaf(row, constrained, adapter)


def _change_kind(declared: Mapping[str, Any], path: Path) -> ChangeKind:
    """What a job can never change of its output a side output can: it is as another one, and a new generation begins
    as with any that is added."""
    kind = ChangeKind[declared["change"].upper()]
    return min(kind, ChangeKind.RESCALE) if path[0] == "side_outputs" else kind


def _declaration(info: FieldInfo, path: Path) -> dict[str, Any]:
    extra = info.json_schema_extra
    declared = extra.get("penstock") if isinstance(extra, dict) else None
    if not isinstance(declared, dict):
        raise TypeError(f"{'.'.join(path)} is not declared: give its Field `**declare(...)`")
    return declared


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation, config=ConfigDict(allow_inf_nan=False))


def _readable_type(schema: Mapping[str, Any], definitions: Mapping[str, Any] | None = None) -> str:
    """A JSON Schema in a few words for people: `integer, 1 to 32`, `one of json, csv`, `list of text`."""
    known = schema.get("$defs", {}) if definitions is None else definitions
    if "$ref" in schema:
        return _readable_type(known[schema["$ref"].rpartition("/")[2]], known)
    choices = _choices(schema)
    if choices:
        return choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"
    if "anyOf" in schema:
        members = [_readable_type(member, known) for member in schema["anyOf"]]
        return " or ".join(member for member in dict.fromkeys(members) if member != _WORDS["null"])
    if schema.get("type") == "array":
        return f"list of {_readable_type(schema['items'], known)}"
    return _WORDS[schema["type"]] + _limits(schema)


def _choices(schema: Mapping[str, Any]) -> list[str]:
    if "anyOf" in schema and all("const" in member or "enum" in member for member in schema["anyOf"]):
        return [choice for member in schema["anyOf"] for choice in _choices(member)]
    return [str(schema["const"])] if "const" in schema else [str(choice) for choice in schema.get("enum", ())]


def _limits(schema: Mapping[str, Any]) -> str:
    if "pattern" in schema:
        words = words_of(schema["pattern"])
        return f" matching {schema['pattern']}" if words is None else f": {words}"
    if "maxLength" in schema:
        return _length(schema.get("minLength", 0), schema["maxLength"])
    if "exclusiveMinimum" in schema:
        return f", more than {schema['exclusiveMinimum']}, at most {schema['maximum']}"
    return f", {schema['minimum']} to {schema['maximum']}" if "minimum" in schema else ""


def _length(least: int, most: int) -> str:
    said = f"at most {most}" if least == 0 else str(most) if least == most else f"{least} to {most}"
    return f", {said} character{'s' if most > 1 else ''}"


ROOT = build_tree(JobConfig)
FIELD_TABLE: tuple[FieldRow, ...] = tuple(rows(ROOT))
