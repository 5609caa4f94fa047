"""`penstock explain`: where each value of a job's configuration comes from."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from penstock.cli.arguments import AsJson, Job
from penstock.cli.connection import client
from penstock.cli.output import cell, say, show_json, table
from penstock.wire.jobs import ExplainedLeafView, HiddenValueView

DEFAULT_LAYER = "default"


def explain(
    job: Job,
    all_: Annotated[bool, typer.Option("--all", "-a", help="also show the fields that no layer sets")] = False,
    as_json: AsJson = False,
) -> None:
    """Show for each field its value, who set it, when and why, and which values it hides."""
    answer = client().explain(job)
    if as_json:
        return show_json(answer)
    shown = [leaf for leaf in answer.leaves if all_ or leaf.layer != DEFAULT_LAYER or leaf.hides]
    rows = [(leaf.field, _value(leaf), leaf.layer, _origin(leaf), _hidden(leaf.hides)) for leaf in shown]
    table(("field", "value", "layer", "set by", "hides"), rows, title=f"{job} at revision {answer.revision}")
    if len(shown) < len(answer.leaves):
        say(f"{len(answer.leaves) - len(shown)} fields have their defaults and are not shown: add --all")
    return None


def _value(leaf: ExplainedLeafView) -> Any:
    return leaf.value if leaf.ignored is None else f"{cell(leaf.value)} (ignored: {leaf.ignored})"


def _origin(leaf: ExplainedLeafView) -> str | None:
    if leaf.author is None:
        return None
    why = f": {leaf.reason}" if leaf.reason else ""
    ends = "" if leaf.expires_at is None else f" (ends {cell(leaf.expires_at)})"
    return f"{leaf.author}, {cell(leaf.written_at)}{why}{ends}"


def _hidden(values: list[HiddenValueView]) -> str:
    return ", ".join(f"{hidden.layer}={cell(hidden.value)}" for hidden in values)
