"""The three checks of the Job Service: a job's name, one layer, and what the layers merge to.

A layer is partial, so only what is true of it alone is checked: its fields exist, this layer may set them, and the
values have the right type and limits. All else (required fields, rules between fields) is checked on the merge.

`null` is refused anywhere in a layer: absence already means "as the lower layers have it", and PATCH uses `null`
to drop a key (RFC 7386), so a `null` that is kept could not be told from one that drops. Only the layer `rollback`,
which is replaced as a whole, may have it: a package without a digest must hide the digest of the one after it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from penstock.config.declare import NAME_RULE, ROLLBACK_LAYER
from penstock.config.keygroups import bounds_in_force, key_group_count
from penstock.config.meant import meant
from penstock.config.model import JobConfig
from penstock.config.partial import partial_of
from penstock.config.pattern_words import message_of
from penstock.config.problems import PYDANTIC_RULES, Problem, refusal
from penstock.config.rules import broken_rules
from penstock.config.tree import ROOT, FreeMap, Group, Leaf, Node, Path, child, dotted, find
from penstock.control.errors import InvalidConfig

JOB_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,98}[a-z0-9])?")
_LONGEST_SHOWN = 80
_MOST_SUGGESTED = 20


def check_job_name(name: str) -> None:
    """Raises InvalidConfig (rule `job_name`) unless `name` can name a job, its checkpoint folder and its tasks."""
    if JOB_NAME.fullmatch(name) is None:
        raise InvalidConfig(
            f"a job's name {NAME_RULE}",
            field="job",
            rule="job_name",
        )


def check_layer(layer_name: str, config: Mapping[str, Any], stored: Mapping[str, Any] | None = None) -> None:
    """Checks one layer's partial configuration (JSON). Fields of a newer release that `stored`, the layer's present
    content, has with the same values may stay.

    Raises InvalidConfig, with every problem in `extra["errors"]`: `unknown_field`, `layer_may_not_set`,
    `null_in_layer`, `map_expected`, `bad_key`, or the name that pydantic gives the broken type or limit.
    """
    problems = layer_problems(layer_name, config, stored)
    if problems:
        raise refusal(problems)


def layer_problems(
    layer_name: str, config: Mapping[str, Any], stored: Mapping[str, Any] | None = None
) -> tuple[Problem, ...]:
    """As `check_layer`, with the problems as data."""
    found = _layer_problems(ROOT, _without_carried(ROOT, config, stored), (), layer_name)
    return tuple(
        _with_suggestion(problem) if number < _MOST_SUGGESTED else problem for number, problem in enumerate(found)
    )


def _without_carried(node: Node, config: Any, stored: Any) -> Any:
    """The content of a layer without what this release does not know and does not change."""
    if isinstance(node, Leaf) or not isinstance(config, dict) or not isinstance(stored, dict):
        return config
    return {
        key: value if below is None else _without_carried(below, value, stored.get(key))
        for key, value in config.items()
        if (below := child(node, key)) is not None or key not in stored or stored[key] != value
    }


def check_merged(merged: Mapping[str, Any], *, carries: bool = False) -> JobConfig:
    """The merged configuration (JSON) as a `JobConfig` that keeps every rule. With `carries`, for layers that were
    checked when they were written, it keeps fields of a newer release.

    Types and limits are strict: `"4"` is no task count. Raises InvalidConfig with every problem in
    `extra["errors"]`; where types and limits are wrong, rules between fields are looked at in what is right.
    `key_group_bounds` that are not in force are left out, so configurations differ in them only where that moves key
    groups.
    """
    config = _typed(merged, carries=carries)
    if not isinstance(config, JobConfig):
        raise refusal(_with_others(config, merged))
    problems = broken_rules(config)
    if problems:
        raise refusal(problems)
    return _with_bounds_in_force(config)


def read_merged(merged: Mapping[str, Any]) -> JobConfig:
    """As `check_merged` with `carries`, of what was accepted once, whatever rules between fields it breaks now."""
    config = _typed(merged, carries=True)
    if not isinstance(config, JobConfig):
        raise refusal(config)
    return _with_bounds_in_force(config)


def check_change(
    after: Mapping[str, Any], known: Iterable[Mapping[str, Any]], of_layer: Sequence[Problem] = ()
) -> JobConfig:
    """As `check_merged` with `carries`, of what a write makes of a job. What the job breaks already is no reason
    against the write: a release brings new rules, and a job can be stopped and taken back all the same.

    `known`: the configurations that the job has and runs with. A part that the write changes keeps every rule.
    `of_layer`: what is wrong with the layer that is written, by itself. It is told with all else that can be known.
    """
    config = _typed(after, carries=True)
    if of_layer or not isinstance(config, JobConfig):
        of_merge = () if isinstance(config, JobConfig) else config
        raise refusal(_with_others((*of_layer, *_besides(of_layer, of_merge)) if of_layer else of_merge, after, known))
    problems = _without_kept(broken_rules(config), known, config)
    if problems:
        raise refusal(problems)
    return _with_bounds_in_force(config)


def _besides(of_layer: Sequence[Problem], of_merge: Sequence[Problem]) -> Iterator[Problem]:
    """The problems of the merge that those of a layer neither say nor explain: a field that is there under a wrong name
    is not missing, and of what a layer cannot hold the merge says nothing new."""
    fields = {problem.field for problem in of_layer}
    unknown = [problem.field for problem in of_layer if problem.rule == "unknown_field"][:_MOST_SUGGESTED]
    named = {field for name in unknown for field in meant(name)[:1]}
    for problem in of_merge:
        is_told = any(_is_at_or_below(problem.field, field) for field in fields | named)
        if not is_told and problem.rule != "unknown_field":
            yield problem


def _is_at_or_below(field: str, above: str) -> bool:
    return field == above or field.startswith(f"{above}.")


def _without_kept(
    problems: Sequence[Problem], known: Iterable[Mapping[str, Any]], after: JobConfig
) -> tuple[Problem, ...]:
    if not problems:
        return ()
    kept = frozenset(problem for each in known for problem in _kept_problems(each, after))
    return tuple(problem for problem in problems if problem not in kept)


def _with_others(
    found: Sequence[Problem], merged: Mapping[str, Any], known: Iterable[Mapping[str, Any]] = ()
) -> Sequence[Problem]:
    """The problems of types and limits, with all that is known of the rest."""
    fields = {problem.field for problem in found}
    try:
        partial = partial_of(merged, fields)
    except ValidationError as error:
        more = [problem for problem in _shape_problems(error) if problem.field and problem.field not in fields]
        return _with_others((*found, *more), merged, known) if more else found
    return (*found, *_without_kept(tuple(partial.broken_rules()), known, partial.config))


def _kept_problems(known: Mapping[str, Any], after: JobConfig) -> Iterator[Problem]:
    """The problems of a configuration with parts that are the same in `after`."""
    config = _typed(known, carries=True)
    if not isinstance(config, JobConfig):
        return
    for problem in broken_rules(config):
        part = problem.field.partition(".")[0]
        if getattr(config, part) == getattr(after, part, None):
            yield problem


def _typed(merged: Mapping[str, Any], *, carries: bool) -> JobConfig | tuple[Problem, ...]:
    """The configuration, or what is wrong with its types and limits."""
    try:
        return JobConfig.model_validate_json(json.dumps(merged), strict=True, extra="forbid")
    except ValidationError as error:
        if not (carries and _is_only_newer(error)):
            return _shape_problems(error)
        return JobConfig.model_validate_json(json.dumps(merged), strict=True)


def _with_bounds_in_force(config: JobConfig) -> JobConfig:
    """Bounds are made for a number of tasks. When another layer changes `task_count` (the Auto Scaler does) they do not
    fit, and that must not refuse its write: they are left out, and count again when the number does."""
    if config.key_group_bounds is None:
        return config
    found = bounds_in_force(key_group_count(config), config.task_count, config.key_group_bounds)
    return config.model_copy(update={"key_group_bounds": found})


def _layer_problems(node: Node, value: Any, path: Path, layer: str) -> Iterator[Problem]:
    field = dotted(path)
    if value is None and not (layer == ROLLBACK_LAYER and isinstance(node, Leaf) and node.row.default is None):
        yield Problem(field, "null_in_layer", f"{field}: a layer cannot set null; leave the key out")
    elif isinstance(node, Leaf):
        yield from _leaf_problems(node, value, path, layer)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _entry_problems(node, key, inner, (*path, key), layer)
    else:
        yield Problem(field, "map_expected", f"{field or 'the configuration'} must be a JSON object")


def _entry_problems(node: Node, key: str, value: Any, path: Path, layer: str) -> Iterator[Problem]:
    field, below = dotted(path), child(node, key)
    if below is None:
        yield Problem(field, "unknown_field", f"{field}: there is no such field")
        return
    if isinstance(node, FreeMap):
        yield from (Problem(field, "bad_key", f"{field}: {message}") for _, message in _mismatches(node.key, key)[:1])
    yield from _layer_problems(below, value, path, layer)


def _with_suggestion(problem: Problem) -> Problem:
    if problem.rule != "unknown_field":
        return problem
    near = meant(problem.field)
    return problem._replace(detail=f"{problem.detail}; do you mean {', '.join(near)}?") if near else problem


def _leaf_problems(leaf: Leaf, value: Any, path: Path, layer: str) -> Iterator[Problem]:
    field = dotted(path)
    if not leaf.row.may_be_set_by(layer):
        yield Problem(field, "layer_may_not_set", f"{field}: the layer {layer} may not set this field")
    for rule, message in _unstorable(value)[:1]:
        yield Problem(field, rule, f"{field}: {message}")
        return
    for rule, _ in _mismatches(leaf.adapter, value)[:1]:
        yield Problem(field, rule, _not_allowed(leaf, field, value))


def _not_allowed(leaf: Leaf, field: str, value: Any) -> str:
    match value:
        case dict():
            shown = "an object"
        case list():
            shown = "this list"
        case _:
            text = json.dumps(value, ensure_ascii=False)
            shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
    return f"{field}: {shown} is not allowed; allowed: {leaf.row.type}"


def _unstorable(value: Any) -> list[tuple[str, str]]:
    """What JSON can say but the store and the wire cannot: NUL in text, integers beyond 64 bits."""
    if isinstance(value, str) and "\0" in value:
        return [("nul_character", "it has the character NUL, which cannot be stored: take it out")]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return [("integer_too_large", "Input should fit into 64 bits")]
    return []


def _mismatches(adapter: TypeAdapter[Any], value: Any) -> list[tuple[str, str]]:
    try:
        adapter.validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        return [(found["type"], message_of(found)) for found in error.errors(include_url=False)]
    except RecursionError:
        return [("too_deep", "Input is nested too deeply")]
    return []


def _shape_problems(error: ValidationError) -> tuple[Problem, ...]:
    """Pydantic's errors, one a field: it reports each member of a union (`args.x`) by itself."""
    found = [_shape_problem(detail) for detail in error.errors(include_url=False)]
    return tuple({problem.field: problem for problem in reversed(found)}.values())[::-1]


def _is_only_newer(error: ValidationError) -> bool:
    """Whether all that is wrong is that no release up to this one has such fields."""
    return all(
        detail["type"] == "extra_forbidden" and find(tuple(_field_path(detail["loc"]))) is None
        for detail in error.errors(include_url=False, include_context=False)
    )


def _shape_problem(detail: ErrorDetails) -> Problem:
    field = dotted(tuple(_field_path(detail["loc"])))
    rule = PYDANTIC_RULES.get(detail["type"], detail["type"])
    if detail["type"].startswith("union_tag"):
        field += ".type"
    elif detail["loc"][-1:] == ("[key]",):
        rule = "bad_key"
    elif rule not in PYDANTIC_RULES.values():
        leaf = find(tuple(_field_path(detail["loc"])))
        if isinstance(leaf, Leaf):
            return Problem(field, rule, _not_allowed(leaf, field, detail["input"]))
    return Problem(field, rule, f"{field}: {message_of(detail)}")


def _field_path(location: tuple[int | str, ...]) -> Iterator[str]:
    """The field of a pydantic location, without what it adds: union members, list indices, `[key]`, the sink's tag."""
    node: Node | None = ROOT
    steps = iter(location)
    for step in steps:
        if node is None or isinstance(node, Leaf) or step == "[key]":
            return
        yield str(step)
        node = child(node, str(step))
        if isinstance(node, Group) and node.discriminator is not None:
            next(steps, None)
