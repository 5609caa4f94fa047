"""Layers to the configuration that they ask for, and parts of the difference between two configurations. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

from penstock.config.classify import Difference
from penstock.config.declare import ChangeKind
from penstock.config.merge import overlay
from penstock.config.validate import check_merged
from penstock.control.errors import InvalidConfig

Config = Mapping[str, Any]


class Unusable(NamedTuple):
    """A merge that is no valid configuration. The Job Service refuses such writes; a change of ranks may cause one."""

    reason: str
    field: str | None


def expected_config(layers: Sequence[Config]) -> Config | Unusable:
    """The complete configuration, as JSON, that `layers` (lowest first) ask for."""
    if not layers:
        return Unusable("the job has no layer with a configuration", None)
    try:
        return check_merged(reduce(overlay, layers)).model_dump(mode="json")
    except InvalidConfig as error:
        return Unusable(error.detail, error.field)


def only(difference: Difference, kind: ChangeKind) -> Difference:
    """The part of a difference that is of this kind."""
    return Difference(kind, tuple(change for change in difference.fields if change.kind is kind))


def field_names(difference: Difference) -> tuple[str, ...]:
    """The dotted paths of the fields that differ, in order."""
    return tuple(sorted(change.field for change in difference.fields))
