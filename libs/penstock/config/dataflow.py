"""A query's syntax tree to what matters of it: the names it reads and the state it keeps.

The walk follows Spark's scoping (CTEs hide inputs and tables of the same name, subqueries see the CTEs around
them) and gives each SELECT's relation by the algebra of `penstock.config.colocation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.config.colocation import (
    ColumnRef,
    Relation,
    StatefulStep,
    joined,
    joins_colocated,
    key_of,
    keys_within,
    projected,
    renamed,
    scoped,
    united,
)
from penstock.config.problems import Problem
from penstock.config.sql import aggregates, conjuncts, grouping, is_star, output_names, own_nodes, sql_problem

Names = Mapping[str, Relation]


@dataclass(slots=True)
class Dataflow:
    """What was found in a query: its result, the stateful operators in it, and names it may not read."""

    result: Relation = field(default_factory=Relation)
    steps: list[StatefulStep] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    tables_seen: set[int] = field(default_factory=set)


def read_dataflow(query: exp.Query, names: Names) -> Dataflow:
    """The dataflow of a query over `names` (lower case) and its own CTEs.

    `problems` has `unknown_relation` for other names, and `unsupported_sql` where a FROM was not understood.
    """
    found = Dataflow()
    found.result = _query(query, names, found)
    hinted = {id(table) for hint in query.find_all(exp.Hint) for table in hint.find_all(exp.Table)}
    for table in query.find_all(exp.Table):
        if id(table) not in found.tables_seen | hinted:
            text = table.sql(dialect="spark")
            found.problems.append(sql_problem("unsupported_sql", f": cannot analyse how {text} is read"))
    return found


def _query(query: exp.Expr, names: Names, found: Dataflow) -> Relation:
    names = _with_ctes(query, names, found)
    match query:
        case exp.Select():
            relation = _select(query, names, found)
        case exp.SetOperation():
            relation = _set_operation(query, names, found)
        case exp.Subquery():
            relation = _source(query, names, found)[1]
        case _:
            return Relation()
    if relation.inputs and (query.args.get("limit") or query.args.get("offset")):
        found.steps.append(StatefulStep("LIMIT", relation.inputs, (), colocated=False))
    return relation


def _with_ctes(query: exp.Expr, names: Names, found: Dataflow) -> Names:
    clause = query.args.get("with_")
    if clause is None:
        return names
    if clause.args.get("recursive"):
        found.problems.append(sql_problem("unsupported_sql", ": a stream cannot be read recursively"))
    known = dict(names)
    for cte in clause.expressions:
        relation = _query(cte.this, known, found)
        known[cte.alias.lower()] = _with_column_aliases(relation, cte)
    return known


def _with_column_aliases(relation: Relation, aliased: exp.Expr) -> Relation:
    columns = tuple(name.lower() for name in aliased.alias_column_names)
    return renamed(relation, columns) if columns else relation


def _set_operation(query: exp.SetOperation, names: Names, found: Dataflow) -> Relation:
    relation = united(_query(query.left, names, found), _query(query.right, names, found))
    if relation.inputs and (query.args.get("distinct") or not isinstance(query, exp.Union)):
        found.steps.append(_all_columns_step(type(query).__name__.upper(), relation))
    return relation


def _all_columns_step(operation: str, relation: Relation) -> StatefulStep:
    return StatefulStep(operation, relation.inputs, relation.names or (), colocated=bool(relation.keys))


def _select(select: exp.Select, names: Names, found: Dataflow) -> Relation:
    scope = _from(select, names, found)
    _expression_subqueries(select, names, found)
    if not scope.inputs:
        return Relation(names=output_names(select))
    _window_steps(select, scope, found)
    scope = _aggregated(select, scope, found)
    keys = projected(scope.keys, lambda column: _output_names_of(select, column))
    relation = Relation(scope.inputs, keys, output_names(select))
    if select.args.get("distinct"):
        found.steps.append(_all_columns_step("DISTINCT", relation))
    return relation


def _from(select: exp.Select, names: Names, found: Dataflow) -> Relation:
    source = select.args.get("from_")
    if source is None:
        return Relation()
    where = select.args.get("where")
    return _joined_source(source.this, select.args.get("joins") or [], where, names, found)


def _joined_source(
    first: exp.Expr, joins: list[exp.Join], where: exp.Where | None, names: Names, found: Dataflow
) -> Relation:
    alias, relation = _source(first, names, found)
    scope = scoped(relation, alias)
    for join in [*(first.args.get("joins") or []), *joins]:
        alias, relation = _source(join.this, names, found)
        scope = _join(scope, scoped(relation, alias), join, where, found)
    return scope


def _source(source: exp.Expr, names: Names, found: Dataflow) -> tuple[str, Relation]:
    """Alias and relation of one item of FROM or JOIN."""
    match source:
        case exp.Table():
            relation = _table(source, names, found)
        case exp.Subquery() if isinstance(source.this, exp.Query):
            relation = _query(source.this, _with_ctes(source, names, found), found)
        case exp.Lateral() if isinstance(source.this, exp.Subquery):
            relation = _query(source.this, names, found)
        case exp.Subquery() | exp.Paren():
            # A join in parentheses: its rows are not followed, so what it streams has no keys from here on.
            relation = Relation(_joined_source(source.this, [], None, names, found).inputs)
        case _:
            relation = Relation()
    return source.alias_or_name.lower(), _pivoted(_with_column_aliases(relation, source), source, found)


def _table(table: exp.Table, names: Names, found: Dataflow) -> Relation:
    found.tables_seen.add(id(table))
    relation = names.get(table.name.lower()) if isinstance(table.this, exp.Identifier) and not table.db else None
    if relation is None:
        text = table.sql(dialect="spark")
        detail = f" reads {text}, which is neither an input, a table of the job nor a CTE"
        found.problems.append(sql_problem("unknown_relation", detail))
        return Relation()
    return relation


def _pivoted(relation: Relation, source: exp.Expr, found: Dataflow) -> Relation:
    pivots = source.args.get("pivots") or []
    if not pivots or not relation.inputs:
        return relation
    if any(not pivot.args.get("unpivot") for pivot in pivots):
        found.steps.append(StatefulStep("PIVOT", relation.inputs, (), colocated=False))
    return Relation(relation.inputs)


def _join(left: Relation, right: Relation, join: exp.Join, where: exp.Where | None, found: Dataflow) -> Relation:
    both = joined(left, right, "LEFT" if join.kind in ("SEMI", "ANTI") else join.side)
    if not (left.inputs and right.inputs):
        return both
    conditions = [*conjuncts(join.args.get("on")), *conjuncts(where.this if where else None)]
    shared = {name.name.lower() for name in join.args.get("using") or []}
    colocated = joins_colocated(left, right, lambda one, other: _equated(one, other, conditions, shared, join))
    found.steps.append(StatefulStep("JOIN", both.inputs, _equated_names(conditions, shared), colocated))
    return both if colocated else replace(both, keys=frozenset())


def _equated(one: ColumnRef, other: ColumnRef, conditions: list[exp.Expr], shared: set[str], join: exp.Join) -> bool:
    if one.name == other.name and (one.name in shared or join.method == "NATURAL"):
        return True
    return any(
        (_is(equality.left, one) and _is(equality.right, other))
        or (_is(equality.left, other) and _is(equality.right, one))
        for equality in conditions
        if isinstance(equality, exp.EQ | exp.NullSafeEQ)
    )


def _equated_names(conditions: list[exp.Expr], shared: set[str]) -> tuple[str, ...]:
    columns = [
        equality.left.name.lower()
        for equality in conditions
        if isinstance(equality, exp.EQ | exp.NullSafeEQ) and isinstance(equality.left, exp.Column)
    ]
    return tuple(dict.fromkeys([*sorted(shared), *columns]))


def _is(expression: exp.Expr, column: ColumnRef) -> bool:
    """Whether an expression is plainly this column.

    A name without a source is taken to be the key column of that name: the source surely has such a column, and if
    another source had one too Spark would refuse the query as ambiguous.
    """
    if not isinstance(expression, exp.Column) or expression.name.lower() != column.name or expression.args.get("db"):
        return False
    return not expression.table or expression.table.lower() == column.source


def _expression_subqueries(select: exp.Select, names: Names, found: Dataflow) -> None:
    clauses = [select.args.get(clause) for clause in ("where", "having", "qualify", "order")]
    conditions = [join.args.get("on") for join in select.args.get("joins") or []]
    for node in own_nodes(*select.expressions, *clauses, *conditions):
        if isinstance(node, exp.Query):
            relation = _query(node, names, found)
            if relation.inputs:
                found.steps.append(StatefulStep("a subquery over a stream", relation.inputs, (), colocated=False))


def _window_steps(select: exp.Select, scope: Relation, found: Dataflow) -> None:
    for node in own_nodes(*select.expressions, select.args.get("qualify")):
        if isinstance(node, exp.Window):
            _step("OVER", list(node.args.get("partition_by") or []), scope, found)


def _aggregated(select: exp.Select, scope: Relation, found: Dataflow) -> Relation:
    """The scope after GROUP BY or a global aggregate: only keys that are grouped by survive."""
    if select.args.get("group"):
        return _step("GROUP BY", grouping(select), scope, found)
    if aggregates(*select.expressions, select.args.get("having")):
        return _step("an aggregate without GROUP BY", [], scope, found)
    return scope


def _step(operation: str, by: list[exp.Expr], scope: Relation, found: Dataflow) -> Relation:
    keys = keys_within(scope, lambda column: any(_is(expression, column) for expression in by))
    plain = tuple(expression.name.lower() for expression in by if isinstance(expression, exp.Column))
    found.steps.append(StatefulStep(operation, scope.inputs, plain, colocated=bool(keys)))
    return replace(scope, keys=keys)


def _output_names_of(select: exp.Select, column: ColumnRef) -> list[str]:
    """The names under which a SELECT passes a column on unchanged."""
    return [
        column.name if is_star(item) else item.output_name.lower()
        for item in select.expressions
        if (_star_passes(item, column) if is_star(item) else _is(item.unalias(), column))
    ]


def _star_passes(item: exp.Expr, column: ColumnRef) -> bool:
    star = item if isinstance(item, exp.Star) else item.this
    source = item.table.lower() if isinstance(item, exp.Column) else ""
    dropped = {name.name.lower() for name in star.args.get("except_") or []}
    return (not source or source == column.source) and column.name not in dropped


def input_relation(name: str, function: str, key_columns: tuple[str, ...]) -> Relation:
    """An input as the query sees it: keyed as its producers keyed it, its column names unknown."""
    known = function != "none" and key_columns
    keys = [key_of(function, (column.lower() for column in key_columns))] if known else []
    return Relation(frozenset({name}), frozenset(keys))
