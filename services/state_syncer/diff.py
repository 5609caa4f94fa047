"""Layers to the configuration they ask for: merged and checked, or the reason why it cannot be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

from penstock.config.merge import overlay
from penstock.config.validate import check_merged
from penstock.control.errors import InvalidConfig

Config = Mapping[str, Any]


class Unusable(NamedTuple):
    """A merge that is no valid configuration: the Job Service refuses writes that give one, a rank change may."""

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
