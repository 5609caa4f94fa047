"""Digests of a complete configuration: comparing them gives the change kind of a difference. Pure.

The store keeps the digests beside each merged configuration and each running one. So a statement in SQL
determines, without reading a configuration, whether a job needs a plan and which kind of change it gets. `classify`
lists the fields that differ, when somebody asks.

There is one digest for each change kind, of the leaves that the field table gives this kind, and three more. `package`
is that of the leaves whose change is a rollout. `first` and `changed` are those of what a host makes or checks before a
job starts, or before a job that has started is changed (`prepared_part`). They are empty where there is nothing. Two of
`changed` may differ where `is_prepared` needs no host, as when several tasks become one: it is then asked.

For two valid configurations the greatest kind whose digests differ is the kind that `classify` gives. A leaf that is
absent counts as its default. The fingerprint of the model and the number of the rules are part of each digest: releases
with other fields or other rules never find two digests equal, and compare the configurations themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from penstock.config.basis import MODEL_FINGERPRINT
from penstock.config.classify import ARGS
from penstock.config.declare import ChangeKind
from penstock.config.tree import Path, entries
from penstock.tasks.rollout import PACKAGE
from penstock.tasks.sinks import OUTPUTS, has_several_tasks, is_in_query, prepared_part

FIRST, CHANGED = "first", "changed"
RULES = 5
"""Raise this number when digests come to another result for the same configuration: a change of `prepared_part`, of
`_plain` or of what a digest covers. Digests of other rules are never equal to these."""
ChangedLeaf = tuple[Path, ChangeKind, Any]
_SEVERAL: ChangedLeaf = (("task_count",), ChangeKind.RESCALE, "several")
"""Where rows are is asked anew when one task becomes several (`penstock.tasks.sinks.is_prepared`)."""


def digests_of(config: Mapping[str, Any]) -> dict[str, str]:
    """The digests of a complete configuration, given as JSON, by the lower case name of the kind."""
    leaves = sorted(_leaves(config), key=lambda leaf: leaf[0])
    digests = {kind.name.lower(): _digest([leaf for leaf in leaves if leaf[1] is kind]) for kind in ChangeKind}
    digests[PACKAGE] = _digest([leaf for leaf in leaves if leaf[0][0] == PACKAGE])
    for name, started in ((FIRST, False), (CHANGED, True)):
        prepared = prepared_part(config, started=started)
        several = [_SEVERAL] if started and has_several_tasks(config) else []
        found = (
            leaf for leaf in leaves if leaf[0][0] in prepared and (leaf[0][0] in OUTPUTS or is_in_query(*leaf[:2]))
        )
        digests[name] = _digest([*found, *several]) if prepared else ""
    return digests


def _leaves(config: Mapping[str, Any]) -> Iterator[ChangedLeaf]:
    """The leaves that are not at their default."""
    for path, leaf, value, *_ in entries(config):
        if leaf is None:
            # As `classify` has it: a field that this version does not know is removed by a restart.
            yield path, ChangeKind.RESTART, value
            continue
        # Of another sink's field an absent value is no default: the field does not apply there.
        absent = None if leaf.row.only_for else leaf.row.default
        if value != absent or (path[0] == ARGS and value is not None):
            yield path, leaf.row.change, value


def _digest(leaves: Sequence[ChangedLeaf]) -> str:
    content = [(path, value if path[0] == ARGS else _plain(value)) for path, _, value in leaves]
    text = orjson.dumps([MODEL_FINGERPRINT, RULES, content])
    return hashlib.md5(text, usedforsecurity=False).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """Numbers that Python holds equal are written alike; only `args` keeps their types apart."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
