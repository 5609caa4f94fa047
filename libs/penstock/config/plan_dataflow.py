"""Spark's analysed plan to the operators that bring rows together, and whether those rows are in one task. Pure.

The walk follows attributes by Spark's own ids, so a column counts as an input's key only where it was passed on
unchanged: a cast, an expression or a Python function over it gives another attribute. What the walk does not know
keeps no keys, and counts as an operator that brings all rows together. SQL and Python queries go the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.config.colocation import (
    OTHER_STREAM,
    Key,
    Relation,
    StatefulStep,
    joined,
    joins_colocated,
    keys_within,
    projected,
    renamed,
    united,
)
from penstock.config.model import Input
from penstock.config.plan_nodes import Tree, parse_plan
from penstock.config.stream import Stream

INPUT_MARK = "penstock input "
"""Begins the alias of the frame of an input, so that the input is found again in the plan."""

_SAME_ROWS = frozenset(
    {
        "CollectMetrics", "CTERelationDef", "EventTimeWatermark", "LocalLimit", "RebalancePartitions", "Repartition",
        "RepartitionByExpression", "ResolvedHint", "Sample", "Sort", "SubqueryAlias", "UpdateEventTimeWatermarkColumn",
        "View",
    }
)  # fmt: skip
_OTHER_ROWS = frozenset({"MapInArrow", "MapInPandas", "PythonMapInArrow"})
_BY_KEYS = {"Deduplicate": "dropDuplicates", "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark"}
_BY_GROUPS = {
    "FlatMapGroupsInArrow": "applyInArrow",
    "FlatMapGroupsInPandas": "applyInPandas",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
}
_GROUPING_ID = "spark_grouping_id"
_SIDES = {"LeftOuter$": "LEFT", "LeftSemi$": "LEFT", "LeftAnti$": "LEFT", "RightOuter$": "RIGHT", "FullOuter$": "FULL"}


@dataclass(frozen=True, slots=True)
class InputColumns:
    """An input as the query reads it: its key, and its columns with Spark's types, in order."""

    key_function: str
    key_columns: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class PlanFacts:
    """What a plan does with streams. `result`: the rows that the query gives."""

    result: Relation = field(default_factory=Relation)
    steps: list[StatefulStep] = field(default_factory=list)


def input_columns(source: Input | Stream, columns: Sequence[tuple[str, str]]) -> InputColumns:
    """An input or a stream with the columns that its frame has."""
    return InputColumns(source.key_function, source.key_columns, tuple(columns))


def read_plan(text: str, inputs: Mapping[str, InputColumns]) -> PlanFacts:
    """The facts of an analysed plan, as `toJSON` writes it, over frames with the alias `INPUT_MARK` and the name.

    Raises RecursionError when the plan is nested too deeply.
    """
    walk = _Walk(inputs)
    walk.facts.result = walk.relation(parse_plan(text))
    return walk.facts


class _Walk:
    def __init__(self, inputs: Mapping[str, InputColumns]) -> None:
        self.facts = PlanFacts()
        self._inputs = inputs
        self._ctes: dict[int, Relation] = {}

    def relation(self, node: Tree, conditions: tuple[Tree, ...] = ()) -> Relation:
        """The rows of a node. `conditions` hold for all of them."""
        match node.kind:
            case "SubqueryAlias" if _alias(node).startswith(INPUT_MARK):
                return self._input(_alias(node).removeprefix(INPUT_MARK), self.relation(node.children[0]))
            case "Filter":
                return self.relation(node.children[0], (*conditions, *_conjuncts(node.tree("condition"))))
            case "Join":
                return self._join(node, conditions)
            case "SubqueryAlias" | "ResolvedHint":
                return self.relation(node.children[0], conditions)
            case kind if kind in _SAME_ROWS:
                return self.relation(node.children[0])
            case "Project":
                return _selected(self.relation(node.children[0]), node.trees("projectList"))
            case "WithCTE":
                return self._with_ctes(node)
            case "CTERelationRef":
                found = self._ctes.get(node.fields["cteId"])
                return Relation(_streams(node)) if found is None else renamed(found, _ids(node.trees("output")))
            case "Union":
                return self._union(node)
        if not node.children:
            return Relation(_streams(node), columns=_ids(node.trees("output")))
        return self._operator(node)

    def _operator(self, node: Tree) -> Relation:
        """An operator of one input that may bring rows together; one that is unknown brings all together."""
        below = self.relation(node.children[0])
        match node.kind:
            case "Generate":
                return _with_columns(below, node.trees("generatorOutput"))
            case "LateralJoin":
                # Spark takes no stream in a subquery, so each row is joined by itself. New columns are not followed.
                return replace(below, columns=None)
            case "Expand":
                return _expanded(below, node)
            case "Aggregate":
                return self._aggregate(below, node)
            case "Window":
                self._step("OVER", node.trees("partitionSpec"), below)
                return _with_columns(below, node.trees("windowExpressions"))
            case "Distinct":
                return self._all_columns("DISTINCT", below, node)
            case "Intersect" | "Except":
                relation = united(below, self.relation(node.children[1]))
                return self._all_columns(node.kind.upper(), relation, node)
            case kind if kind in _BY_KEYS:
                return self._step(_BY_KEYS[kind], node.trees("keys"), below)
            case kind if kind in _BY_GROUPS:
                self._step(_BY_GROUPS[kind], node.trees("groupingAttributes"), below)
                # The rows that a function gives for a group may have any values.
                return Relation(below.inputs, columns=_outputs(node))
            case "TransformWithStateInPySpark":
                return self._transform_with_state(below, node)
            case kind if kind in _OTHER_ROWS:
                return Relation(below.inputs, columns=_outputs(node))
            case "GlobalLimit" | "Offset" | "Tail":
                return self._step("LIMIT", (), below)
        streams = below.inputs.union(*(self.relation(child).inputs for child in node.children[1:]))
        return self._step(f"the operator {node.kind}", (), Relation(streams))

    def _input(self, name: str, below: Relation) -> Relation:
        """A key of an input is one only together with the types by which the partitions were chosen."""
        source = self._inputs[name]
        names = below.columns or ()
        by_name = {
            column.lower(): (identity, kind) for identity, (column, kind) in zip(names, source.columns, strict=False)
        }
        key = [by_name.get(column.lower()) for column in source.key_columns]
        found = [column for column in key if column is not None and _hashes_as_it_compares(column[1])]
        if len(names) != len(source.columns) or source.key_function == "none" or not key or len(found) != len(key):
            return Relation(frozenset({name}), columns=below.columns)
        function = f"{source.key_function}({', '.join(kind for _, kind in found)})"
        return Relation(frozenset({name}), frozenset({Key(function, tuple(one for one, _ in found))}), below.columns)

    def _with_ctes(self, node: Tree) -> Relation:
        for child in node.children:
            if child.kind == "CTERelationDef":
                self._ctes[child.fields["id"]] = self.relation(child)
        return self.relation(node.children[node.fields["plan"]])

    def _join(self, node: Tree, conditions: tuple[Tree, ...]) -> Relation:
        """The conditions around an inner join hold for the rows of both sides, too."""
        kind = str((node.fields.get("joinType") or {}).get("object", "")).rpartition(".")[2]
        inner = kind in ("Inner$", "Cross$")
        around = conditions if inner else ()
        left, right = (self.relation(child, around) for child in node.children[:2])
        semi = kind in ("LeftSemi$", "LeftAnti$")
        names = left.columns if semi else _joined_names(left, right)
        side = "" if inner else _SIDES.get(kind, "FULL")
        both = replace(joined(left, right, side), columns=names)
        if not (left.inputs and right.inputs):
            return both
        pairs = list(_equalities((*around, *_conjuncts(node.tree("condition")))))
        equal = {(one.attribute, other.attribute) for one, other in pairs}
        colocated = joins_colocated(left, right, lambda one, other: (one, other) in equal or (other, one) in equal)
        by = tuple(dict.fromkeys(one.name.lower() for one, _ in pairs if one.attribute))
        self.facts.steps.append(StatefulStep("JOIN", both.inputs, by, colocated))
        return both if colocated else replace(both, keys=frozenset())

    def _union(self, node: Tree) -> Relation:
        first, *others = (self.relation(child) for child in node.children)
        for other in others:
            first = united(first, other)
        return first

    def _aggregate(self, below: Relation, node: Tree) -> Relation:
        by = node.trees("groupingExpressions")
        grouped = self._step("GROUP BY" if by else "an aggregate without GROUP BY", by, below)
        return _selected(grouped, node.trees("aggregateExpressions"))

    def _transform_with_state(self, below: Relation, node: Tree) -> Relation:
        count = int(node.fields.get("groupingAttributesLen") or 0)
        groups = set((below.columns or ())[:count])
        keys = keys_within(below, lambda column: column in groups)
        if below.inputs:
            by = tuple(name.lower() for name in _column_names(node.children[0])[:count])
            full = node.fields.get("hasInitialState") is True
            self.facts.steps.append(StatefulStep("transformWithState", below.inputs, by, bool(keys), full))
        return Relation(below.inputs, columns=_outputs(node))

    def _all_columns(self, operation: str, relation: Relation, node: Tree) -> Relation:
        if relation.inputs:
            by = tuple(name.lower() for name in _column_names(node.children[0]))
            self.facts.steps.append(StatefulStep(operation, relation.inputs, by, colocated=bool(relation.keys)))
        return relation

    def _step(self, operation: str, by: Sequence[Tree], below: Relation) -> Relation:
        if not below.inputs:
            return below
        attributes = {each.attribute for each in by}
        keys = keys_within(below, lambda column: column in attributes)
        plain = (each.name.lower() for each in by if each.attribute is not None and each.name != _GROUPING_ID)
        names = tuple(dict.fromkeys(plain))
        self.facts.steps.append(StatefulStep(operation, below.inputs, names, colocated=bool(keys)))
        return replace(below, keys=keys)


def _hashes_as_it_compares(kind: str) -> bool:
    """Texts of another collation than Spark's default may be equal and have different bytes."""
    return "collate" not in kind


def _alias(node: Tree) -> str:
    return str(node.fields["identifier"]["name"])


def _streams(leaf: Tree) -> frozenset[str]:
    streams = leaf.kind.startswith("Streaming") or leaf.fields.get("isStreaming") is True
    return frozenset({OTHER_STREAM}) if streams else frozenset()


def _ids(attributes: Sequence[Tree]) -> tuple[str, ...]:
    return tuple(str(each.expression_id) for each in attributes)


def _outputs(node: Tree) -> tuple[str, ...] | None:
    for name in ("output", "outAttrs", "outputAttrs", "resultAttrs"):
        if name in node.fields:
            return _ids(node.trees(name))
    return None


def _column_names(node: Tree) -> tuple[str, ...]:
    """The names of a node's columns, for people; none where they are not at hand."""
    for name in ("projectList", "aggregateExpressions", "output"):
        if name in node.fields:
            return tuple(each.name for each in node.trees(name))
    return _column_names(node.children[0]) if node.children else ()


def _selected(below: Relation, items: Sequence[Tree]) -> Relation:
    """The rows of a list of select items: a key goes on where an item is plainly its column, under any name."""
    passed: dict[str, list[str]] = {}
    for item in items:
        source = item.children[0] if item.kind == "Alias" else item
        if source.attribute is not None:
            passed.setdefault(source.attribute, []).append(str(item.expression_id))
    keys = projected(below.keys, passed)
    return Relation(below.inputs, keys, _ids(items))


def _expanded(below: Relation, node: Tree) -> Relation:
    """Each row several times: a key goes on where each of the times has its column."""
    outputs = _ids(node.trees("output"))
    times = [[Tree("", {}, ()) if not each else _first(each) for each in row] for row in node.fields["projections"]]
    passed: dict[str, list[str]] = {}
    for place, output in enumerate(outputs):
        sources = {row[place].attribute for row in times}
        source = sources.pop() if len(sources) == 1 else None
        if source is not None:
            passed.setdefault(source, []).append(output)
    return Relation(below.inputs, projected(below.keys, passed), outputs)


def _first(records: Sequence[Mapping[str, object]]) -> Tree:
    """The expression's root, which is all that tells a plain attribute."""
    return Tree(str(records[0]["class"]).rpartition(".")[2], records[0], ())


def _with_columns(below: Relation, more: Sequence[Tree]) -> Relation:
    return replace(below, columns=None if below.columns is None else (*below.columns, *_ids(more)))


def _joined_names(left: Relation, right: Relation) -> tuple[str, ...] | None:
    return None if left.columns is None or right.columns is None else (*left.columns, *right.columns)


def _conjuncts(condition: Tree | None) -> Iterator[Tree]:
    if condition is None:
        return
    if condition.kind == "And":
        for side in condition.children:
            yield from _conjuncts(side)
    else:
        yield condition


def _equalities(conditions: Sequence[Tree]) -> Iterator[tuple[Tree, Tree]]:
    for condition in conditions:
        if condition.kind in ("EqualTo", "EqualNullSafe"):
            one, other = condition.children
            yield one, other
