"""`field=value` as people type it: a merge patch, with each value of the type that the field table gives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from penstock.cli.parse import duration_seconds, json_object
from penstock.config.meant import meant
from penstock.config.tree import ROOT, FreeMap, Group, Leaf, Node, child, dotted
from penstock.control.errors import NotFound, UserError

Keys = tuple[str, ...]
_BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([kmgt]?)i?b", re.IGNORECASE)
_HOW = "write field=value, such as task_count=4, one JSON object, or the name of a file"


def change_of(words: Sequence[str], *, names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The merge patch that `words` stand for: one JSON object, one file that contains it, or `field=value` each.

    `null` removes the field from the layer. Raises UserError with field and rule, and NotFound for an unknown field.
    """
    if len(words) == 1 and (words[0].lstrip().startswith("{") or Path(words[0]).is_file()):
        return json_object(words[0], names=dict(names or {}))
    patch: dict[str, Any] = {}
    refused: list[UserError] = []
    for word in words:
        try:
            _put(patch, *assignment(word))
        except UserError as error:
            refused.append(error)
    if refused:
        raise _all_of(refused)
    return patch


def _all_of(refused: Sequence[UserError]) -> UserError:
    """The first refusal, which carries all of them as a refusal of the Job Service does."""
    first = refused[0]
    first.extra["errors"] = [{"field": each.field, "rule": each.rule, "detail": each.detail} for each in refused]
    return first


def assignment(word: str) -> tuple[Keys, Any]:
    """The path and the JSON value of one `field=value`. Raises UserError, and NotFound for an unknown field."""
    name, equals, text = word.partition("=")
    if not equals or not name:
        raise UserError(f"{word} is no assignment: {_HOW}", field="config", rule="field_value")
    path, node = _resolve(name)
    return path, _value(path, node, text)


def unknown_field(name: str, *, field: str = "name") -> NotFound:
    """The refusal of a field that the field table does not have, with those that look like it."""
    near = meant(name)
    hint = f"do you mean {', '.join(near)}?" if near else "`penstock fields --all` shows all"
    return NotFound(f"there is no field {name}: {hint}", field=field, rule="known")


def _resolve(name: str) -> tuple[Keys, Node]:
    """The path of a dotted name, and its node. Keys of a map of plain values may have dots themselves."""
    path: Keys = ()
    node: Node = ROOT
    rest = name.split(".")
    while rest:
        if isinstance(node, FreeMap) and isinstance(node.element, Leaf):
            path, node, rest = (*path, ".".join(rest)), node.element, []
            break
        below = child(node, rest[0])
        if below is None or not rest[0]:
            raise unknown_field(name, field=name)
        path, node, rest = (*path, rest[0]), below, rest[1:]
    return path, node


def _value(path: Keys, node: Node, text: str) -> Any:
    if text == "null":
        return None
    if not isinstance(node, Leaf):
        return _whole(path, node, text)
    rule = "type"
    for candidate in _candidates(node, text):
        if isinstance(candidate, bool) and "true or false" not in node.row.type:
            continue  # pydantic would take true for the number 1
        try:
            return node.adapter.dump_python(node.adapter.validate_python(candidate), mode="json")
        except ValidationError as error:
            rule = error.errors(include_url=False)[0]["type"]
    name, unit = dotted(path), f", {node.row.unit}" if node.row.unit else ""
    raise UserError(
        f"{name}: {text or 'nothing'} is not allowed; allowed: {node.row.type}{unit}", field=name, rule=rule
    )


def _candidates(leaf: Leaf, text: str) -> Iterable[Any]:
    """What a text may stand for, the likeliest first; never empty."""
    unit = leaf.row.unit or ("seconds" if leaf.row.path.endswith("_seconds") else "")
    if unit == "bytes" and (size := _SIZE.fullmatch(text)):
        yield int(float(size[1]) * _BYTES[size[2].lower()])
    if unit == "seconds" and re.fullmatch(r"(\d+ *[a-z]+ *)+", text):
        yield duration_seconds(text, field=leaf.row.path)
    try:
        yield orjson.loads(text)
    except orjson.JSONDecodeError:
        if leaf.row.type.startswith("list of"):
            yield [part.strip() for part in text.split(",")]
    yield text


def _whole(path: Keys, node: Group | FreeMap, text: str) -> Any:
    """A JSON object for a field with fields below it."""
    if not text.lstrip().startswith("{"):
        below = ", ".join(list(node.fields)[:5]) if isinstance(node, Group) else "any key"
        raise UserError(
            f"{dotted(path)} has fields of its own ({below}): write {dotted(path)}.NAME=value, or a JSON object",
            field=dotted(path),
            rule="object",
        )
    return json_object(text)


def _put(patch: dict[str, Any], path: Keys, value: Any) -> None:
    place = patch
    for key in path[:-1]:
        below = place.setdefault(key, {})
        if not isinstance(below, dict):
            raise _twice(path)
        place = below
    if path[-1] in place:
        raise _twice(path)
    place[path[-1]] = value


def _twice(path: Keys) -> UserError:
    return UserError(f"{dotted(path)} is given twice: leave one out", field=dotted(path), rule="once")
