"""How a stopped job is started again: which layer to change. Pure."""

from __future__ import annotations

from typing import NamedTuple

from penstock.config.model import DesiredState
from penstock.wire.jobs import ExplainedLeafView

FIELD = "desired_state"


class Change(NamedTuple):
    """What a start writes: `value` None removes the field from the layer."""

    layer: str
    value: str | None


def start_change(leaf: ExplainedLeafView) -> Change | None:
    """What starts a job whose `desired_state` is `leaf`; None when it is already set to run."""
    if leaf.value != DesiredState.STOPPED:
        return None
    below = leaf.hides[0].value if leaf.hides else DesiredState.RUNNING
    return Change(leaf.layer, None if below == DesiredState.RUNNING else DesiredState.RUNNING.value)
