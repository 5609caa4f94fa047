"""What is known of a configuration of which some fields have a wrong type or limit. Pure.

Whoever mends one field wants to hear of the others at once. So the rules look at what is right, as far as they can do
so without a part that is wrong: of that nothing is known, and nothing is said.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from penstock.config.meant import meant
from penstock.config.model import JobConfig
from penstock.config.problems import Problem
from penstock.config.query_rules import query_problems
from penstock.config.rules import RULES

_MOST_COMPARED = 20
_SIDES = "side_outputs"
_NAMED = {"inputs", "streams", "tables"}
"""Of these a query needs the names alone."""
_STAND_INS = {"query": {"sql": "SELECT 1"}, "output": {"type": "kafka", "topic": "unknown"}}
"""For the fields that every job must have; removed again."""


class UnknownPart(Exception):
    """A rule read a part of the configuration that was taken out as invalid."""


class _KnownParts(JobConfig):
    """A configuration from which the invalid parts were taken out."""

    def __getattr__(self, name: str) -> Any:
        """Called for what is not there. Raises UnknownPart for a part, AttributeError for what is none."""
        if name in JobConfig.model_fields:
            raise UnknownPart(name)
        return super().__getattr__(name)  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class Partial:
    """The valid parts of a configuration. `config`: raises UnknownPart when another part is read. `names`: the names
    that other parts declare (inputs, streams, tables), by part."""

    config: JobConfig
    names: Mapping[str, Mapping[str, None]]

    def broken_rules(self) -> Iterator[Problem]:
        """What the rules say that can do without the unknown parts."""
        for rule in RULES:
            known = self.config.model_copy(update=self.names) if rule is query_problems else self.config
            try:
                yield from rule(known)
            except UnknownPart:
                continue


def partial_of(merged: Mapping[str, Any], broken: Iterable[str]) -> Partial:
    """A merged configuration (JSON) without the parts in which a field is `broken`; a side output is a part.

    Raises pydantic's ValidationError where more is broken.
    """
    right = dict(merged)
    parts = {*_taken_out(right, broken), *(_STAND_INS.keys() - right.keys())}
    stand_ins = {part: value for part, value in _STAND_INS.items() if part in parts}
    config = _KnownParts.model_validate_json(json.dumps({**right, **stand_ins}), strict=True)
    for part in parts:
        config.__dict__.pop(part, None)
    named = {part: merged.get(part) for part in parts & _NAMED}
    return Partial(config, {part: dict.fromkeys(given) for part, given in named.items() if isinstance(given, dict)})


def _taken_out(right: dict[str, Any], broken: Iterable[str]) -> Iterator[str]:
    """Takes the parts of the broken fields out; gives those that are gone whole."""
    parts = set()
    for field in broken:
        part, _, below = field.partition(".")
        name = below.partition(".")[0]
        sides = right.get(part)
        if part == _SIDES and isinstance(sides, dict) and name in sides:
            right[part] = {other: side for other, side in sides.items() if other != name}
        else:
            parts.add(part)
    for gone in {*parts, *_meant_by(parts)}:
        right.pop(gone, None)
        yield gone


def _meant_by(parts: Iterable[str]) -> Iterator[str]:
    """The parts that are there under another name: they are missing where they belong. Those of the first few alone,
    since each name is compared with all fields."""
    unknown = (part for part in parts if part not in JobConfig.model_fields)
    for part in islice(unknown, _MOST_COMPARED):
        yield from (each.partition(".")[0] for each in meant(part)[:1])
