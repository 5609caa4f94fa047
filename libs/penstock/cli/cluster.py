"""Commands about the cluster: shards, alerts, the field table, decisions of the Auto Scaler."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from penstock.cli.arguments import AsJson, Job
from penstock.cli.connection import client, say_more
from penstock.cli.output import Whole, cell, say, show_json, table
from penstock.config.tree import FIELD_TABLE
from penstock.wire.jobs import FieldView
from penstock.wire.overview import ShardCount


def shards(
    as_json: AsJson = False,
    wanted: Annotated[
        int | None, typer.Option("--set", min=1, help="the new number: a multiple or a divisor of the present one")
    ] = None,
) -> None:
    """Show how many shards each container owns, or change the number of shards.

    `--json` lists every shard.
    """
    if wanted is not None:
        asked = client().ask_for_shards(wanted)
        return show_json(asked) if as_json else say(_count(asked))
    page = client().shards()
    if as_json:
        return show_json(page)
    counts = Counter(shard.container for shard in page.shards)
    rows = [(name or "nobody", count) for name, count in sorted(counts.items(), key=lambda of: of[0] or "")]
    table(("container", "shards"), rows, title=_count(page))
    return say_more(page.next)


def _count(shown: ShardCount) -> str:
    present = f"{shown.shard_count} shards"
    if shown.wanted_shard_count == shown.shard_count:
        return present
    return f"{present}, changing to {shown.wanted_shard_count}"


def alerts(as_json: AsJson = False) -> None:
    """List open alerts, newest first."""
    page = client().alerts()
    if as_json:
        return show_json(page)
    rows = [(a.kind, a.subject, Whole(a.message), a.times, a.raised_at) for a in page.alerts]
    table(("kind", "subject", "message", "times", "raised"), rows)
    return say_more(page.next)


def fields(as_json: AsJson = False) -> None:
    """List all fields of a job's configuration: default, layers that may set it, cost of a change.

    It needs no running stack: the fields are those of this version of Penstock.
    """
    answer = [FieldView.model_validate(row.as_json()) for row in FIELD_TABLE]
    if as_json:
        return show_json(*answer)
    rows = [(f.path, f"{f.type}, {f.unit}" if f.unit else f.type, *_rules(f), f.documentation) for f in answer]
    return table(("field", "type", "default", "change kind", "layers", "documentation"), rows)


def _rules(field: FieldView) -> tuple[str, str, str]:
    default = "required" if field.required else cell(field.default)
    return default, field.change, ", ".join(field.layers)


def decisions(job: Job, as_json: AsJson = False) -> None:
    """List what the Auto Scaler decided about a job, newest first."""
    page = client().decisions(job)
    if as_json:
        return show_json(page)
    rows = [(d.at, d.symptom, d.action, d.change, d.outcome) for d in page.decisions]
    table(("when", "symptom", "action", "change", "outcome"), rows)
    return say_more(page.next)
