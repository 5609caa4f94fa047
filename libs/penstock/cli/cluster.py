"""Commands about the cluster: shards, the field table, decisions of the Auto Scaler."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer

from penstock.cli.arguments import AsJson, Job, Reason
from penstock.cli.assignments import unknown_field
from penstock.cli.connection import client, say_more
from penstock.cli.output import Whole, cell, is_wide, moment, say, show_json, table
from penstock.config.tree import FIELD_TABLE, FieldRow, find
from penstock.config.tree import rows as field_rows
from penstock.wire.jobs import Fields, FieldView
from penstock.wire.overview import DecisionView, ShardCount


def shards(
    as_json: AsJson = False,
    wanted: Annotated[
        int | None, typer.Option("--set", min=1, help="the new number: a multiple or a divisor of the present one")
    ] = None,
    reason: Reason = "",
) -> None:
    """Show how many shards each container owns, or change the number of shards.

    `--json` lists every shard.
    """
    if wanted is not None:
        asked = client().ask_for_shards(wanted, reason=reason)
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


def fields(
    name: Annotated[
        str | None,
        typer.Argument(help="show this field, or all of a section, with the whole text; default: the sections"),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", "-a", help="show all fields with the whole text")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the sections of a job's configuration, or of fields the default, who may set it, cost of a change.

    It needs no running stack: the fields are those of this version of Penstock. `--json` has all of them.
    """
    answer = [FieldView.model_validate(row.as_json()) for row in (FIELD_TABLE if name is None else _named(name))]
    if as_json:
        return show_json(Fields(fields=answer))
    if name is not None or all_ or is_wide():
        _say_fields(answer)
        return say("layers: `*` is every layer, `!scaler` all but scaler")
    table(("section", "default", "change kind", "what it is"), sections(answer))
    return say(f"{len(answer)} fields: `penstock fields inputs` shows those of a section, `penstock fields --all` all")


def sections(found: Sequence[FieldView]) -> list[tuple[str, str, str, str]]:
    """A row for each field of a job itself, which may have fields of its own. Pure."""
    below: dict[str, list[FieldView]] = {}
    for field in found:
        below.setdefault(field.path.partition(".")[0], []).append(field)
    return [_section(name, fields) for name, fields in below.items()]


def _section(name: str, fields: Sequence[FieldView]) -> tuple[str, str, str, str]:
    first = fields[0]
    if len(fields) == 1:
        default, change, _ = _rules(first)
        return first.path, default, change, first.documentation.partition(". ")[0].rstrip(".")
    names = dict.fromkeys(_below(field.path) for field in fields)
    return name, "-", "-", f"{len(fields)} fields: {', '.join(names)}"


def _below(path: str) -> str:
    """What a field is called within its section: `topic` of `inputs.*.topic`."""
    return next(part for part in path.split(".")[1:] if part != "*")


def _named(name: str) -> list[FieldRow]:
    """The rows of a field such as `task_count` or `side_outputs.late.output.table`, of all below `inputs`, or of all
    with such a part, as `csv`. Of a field that there is not, those of what it would be in. Raises NotFound."""
    path = tuple(name.split("."))
    above = (find(path[:length]) for length in range(len(path), 0, -1))
    node = next((each for each in above if each is not None), None)
    found = [row for row in FIELD_TABLE if name in row.path.split(".")] if node is None else list(field_rows(node))
    if not found:
        raise unknown_field(name)
    return found


def _say_fields(found: list[FieldView]) -> None:
    for field in found:
        default, change, layers = _rules(field)
        say(field.path, style="bold")
        say(f"  type {_type(field)}; default {default}; change kind {change}; layers {layers}")
        say(f"  {field.documentation}")


def _type(field: FieldView) -> str:
    return f"{field.type}, {field.unit}" if field.unit else field.type


def _rules(field: FieldView) -> tuple[str, str, str]:
    default = json.dumps(field.default, ensure_ascii=False) if isinstance(field.default, str) else cell(field.default)
    return "required" if field.required else default, field.change, ", ".join(field.layers)


def decisions(
    job: Job,
    as_json: AsJson = False,
    why: Annotated[
        bool,
        typer.Option(
            "--why",
            help="the newest decision, and the newest that was to change something, with all that was known",
        ),
    ] = False,
) -> None:
    """List what the Auto Scaler decided about a job, newest first."""
    page = client().decisions(job)
    if as_json:
        return show_json(page)
    if why and page.decisions:
        return _say_why(page.decisions)
    rows = [(moment(d.at), d.symptom, d.action, d.change, d.outcome, Whole(_reason(d))) for d in page.decisions]
    table(("when", "symptom", "action", "change", "outcome", "reason"), rows)
    return say_more(page.next)


def _reason(decision: DecisionView) -> str:
    return str(decision.inputs.get("reason", "-"))


def _say_why(decisions: Sequence[DecisionView]) -> None:
    """The newest one, and the last that was to change something: what follows a change is seldom of interest."""
    newest = decisions[0]
    _say_sentences(newest)
    changed = next((each for each in decisions if each.change is not None), newest)
    if changed is not newest:
        _say_sentences(changed)


def _say_sentences(decision: DecisionView) -> None:
    """Those that the Auto Scaler stored with the decision. One from before there were any has its reason."""
    say(f"action: {decision.action}; outcome: {decision.outcome}; at {moment(decision.at)}", style="bold")
    for sentence in decision.inputs.get("why") or [_reason(decision)]:
        say(f"  {sentence}")
