"""Commands about the configuration of a job: its layers, their history, where values come from, what a change does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from difflib import ndiff
from functools import partial
from typing import Annotated, Any

import typer

from penstock.cli.arguments import (
    AllowRepeats,
    AsJson,
    ChangeOrNone,
    Config,
    IfMatch,
    Job,
    Layer,
    LayerOrNone,
    Reason,
    Timeout,
    Verify,
    WaitUntilDone,
    WholeLayer,
)
from penstock.cli.assignments import change_of
from penstock.cli.cell import cell_history
from penstock.cli.connection import client, definition, names_in_files, say_more, say_written
from penstock.cli.errors import required
from penstock.cli.output import age, cell, changes, clock, counted, end, leaf, moment, say, show_json, table
from penstock.cli.parse import duration_seconds, expiry_seconds, name_of
from penstock.cli.since import telling_writes
from penstock.cli.spark_answer import WITHIN, asked_until_answered, end_unless_done, unverified_outcome
from penstock.cli.waiting import say_and_wait, wait_for
from penstock.control.errors import UserError
from penstock.wire.job_client import Expiring, JobClient
from penstock.wire.jobs import (
    AnalysisView,
    ExplainedLeafView,
    FieldChangeView,
    HiddenValueView,
    HistoryEntry,
    LayerView,
    PlanView,
    Written,
)

DEFAULT_LAYER = "default"
_LONGEST_IN_TABLE = 40
_WATERMARKS = {
    "wait": "tasks that are behind first read up to the others (completeness: wait)",
    "drop_late": "rows that slow tasks have not read yet are dropped as late (completeness: drop_late)",
}


def show(job: Job, layer: Layer) -> None:
    """Show one layer of a job as JSON."""
    show_json(client().get_layer(job, layer))


def patch(
    job: Job,
    layer: Layer,
    config: Config,
    reason: Reason = "",
    if_match: IfMatch = None,
    verify: Verify = True,
    allow_repeats: AllowRepeats = False,
    wait: WaitUntilDone = False,
    timeout: Timeout = "5m",
) -> None:
    """Merge a change into a layer. A null removes a key."""
    change, connection, seconds = definition(job, config), client(), duration_seconds(timeout, field="timeout")
    version = _version(connection, job, layer, if_match)
    with telling_writes(connection, job, layer, version):
        written = connection.patch_layer(
            job, layer, change, if_match=version, reason=reason, verify=verify, allow_repeats=allow_repeats
        )
    say_and_wait(connection, written, seconds if wait else None)


def drop(
    job: Job,
    layer: Layer,
    reason: Reason = "",
    if_match: IfMatch = None,
    allow_repeats: AllowRepeats = False,
    wait: WaitUntilDone = False,
    timeout: Timeout = "5m",
) -> None:
    """Remove a layer from a job. The values that it hid apply again."""
    connection, seconds = client(), duration_seconds(timeout, field="timeout")
    version = _version(connection, job, layer, if_match)
    with telling_writes(connection, job, layer, version):
        written = connection.drop_layer(job, layer, if_match=version, allow_repeats=allow_repeats, reason=reason)
    say_and_wait(connection, written, seconds if wait else None)


def _version(connection: JobClient, job: str, layer: str, if_match: int | None) -> int:
    """The version that a write replaces: the one that the user names, else the present one."""
    return connection.get_layer(job, layer).version if if_match is None else if_match


def override(
    job: Job,
    config: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FIELD=VALUE...",
            help="such as task_count=4 resources.memory_bytes=2GiB; or one JSON object; null removes a field",
        ),
    ] = None,
    reason: Annotated[
        str, typer.Option("--reason", "-r", help="why; kept in the history; required, but not with --drop")
    ] = "",
    for_: Annotated[
        str | None,
        typer.Option("--for", help="30m, 1h30m, 1d or never; default: as the layer has it; a new one: a day"),
    ] = None,
    whole_layer: WholeLayer = False,
    allow_repeats: AllowRepeats = False,
    drop_: Annotated[bool, typer.Option("--drop", help="end the override")] = False,
    wait: WaitUntilDone = False,
    timeout: Timeout = "5m",
) -> None:
    """Override settings of a job in the `oncall` layer, with a reason and an expiry.

    Values have the type and the unit of their fields: `penstock fields --all` lists them. What is refused changes
    nothing.
    """
    if drop_ and config:
        raise UserError("give fields to override, or --drop to end the override", field="config", rule="one_of")
    if drop_:
        return drop(job, "oncall", reason, allow_repeats=allow_repeats, wait=wait, timeout=timeout)
    if not config:
        raise required("give what to override as FIELD=VALUE, or --drop to end the override", field="config")
    if not reason.strip():
        raise required('give a reason: --reason "..."; the next person on call will need it', field="reason")
    change, seconds = change_of(config, names=names_in_files(job)), duration_seconds(timeout, field="timeout")
    connection = client()
    given = Expiring(reason=reason, expires_in_seconds=expiry_seconds(for_), whole_layer=whole_layer)
    layer = connection.get_layer(job, "oncall")
    with telling_writes(connection, job, "oncall", layer.version):
        written = connection.patch_layer(
            job, "oncall", change, if_match=layer.version, allow_repeats=allow_repeats, **given
        )
    say_written(written)
    if layer.config and layer.expires_at and written.expires_at and written.expires_at > layer.expires_at:
        say(f"all of the layer ends then, also what would have ended {end(layer.expires_at)}")
    return wait_for(connection, job, written.revision, seconds) if wait else None


def history(
    job: Annotated[
        str | None, typer.Argument(help="name of the job; default: the cell", callback=name_of("job"))
    ] = None,
    subject: Annotated[
        str | None, typer.Option(help="of the cell: only about this token, layer, container, alert or silence")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show who changed what, when and why, newest first: of a job, or of the cell without one."""
    if job is None:
        return cell_history(as_json, subject)
    page = client().history(job)
    if as_json:
        return show_json(page)
    rows = [
        (e.revision, moment(e.at), e.action, e.layer, e.version, e.author, e.reason, "\n".join(_changes(e)))
        for e in page.entries
    ]
    table(("revision", "when", "action", "layer", "version", "author", "reason", "changes"), rows)
    return say_more(page.next)


def _changes(entry: HistoryEntry) -> Iterator[str]:
    """What a write changed, and when it was to end."""
    yield from changes(entry.old, entry.new)
    if entry.expires_at is not None:
        yield f"ends at {clock(entry.expires_at, datetime.now(UTC))}"


def revert(
    job: Job,
    layer: Layer,
    version: Annotated[int, typer.Argument(min=0, help="see `penstock history`; 0 is before the first write")],
    reason: Reason = "",
    for_: Annotated[
        str | None,
        typer.Option("--for", help="30m, 1h30m, 1d or never; default: until the end of that version"),
    ] = None,
    if_match: IfMatch = None,
    allow_repeats: AllowRepeats = False,
    wait: WaitUntilDone = False,
    timeout: Timeout = "5m",
) -> None:
    """Set a layer back to its content at an earlier version.

    It ends when that version was to end. If that time has passed, it lasts as long as then, from now on.
    """
    connection, seconds = client(), duration_seconds(timeout, field="timeout")
    before = connection.get_layer(job, layer)
    given = Expiring(reason=reason, expires_in_seconds=expiry_seconds(for_))
    present = before.version if if_match is None else if_match
    with telling_writes(connection, job, layer, present):
        written = connection.revert_layer(job, layer, version, if_match=present, allow_repeats=allow_repeats, **given)
    say_written(written)
    if connection.get_layer(job, layer).config is not None:
        _say_end(connection, before, written, None if for_ else version)
    if wait:
        wait_for(connection, job, written.revision, seconds)


def _say_end(connection: JobClient, before: LayerView, written: Written, version: int | None) -> None:
    """When a layer that was set back ends, where that is worth a word. `version`: the one that has its expiry."""
    job, layer = before.job, before.layer
    as_then = "" if version is None else f", as at version {version}"
    if written.expires_at is None and (before.expires_at is not None or _ends_by_default(connection, layer)):
        say(f"it never ends{as_then}: {_how_to_drop(job, layer)} ends it")
    elif version is not None and (ended_at := _ended_at(connection, job, layer, version)) is not None:
        say(f"version {version} ended {age(ended_at, datetime.now(UTC))}: it lasts as long again")


def _ends_by_default(connection: JobClient, layer: str) -> bool:
    """Whether writes to a layer of the cell end unless they ask not to, so that one that stays is worth a word."""
    return any(row.name == layer and row.default_expiry_seconds is not None for row in connection.layers())


def _how_to_drop(job: str, layer: str) -> str:
    return f"`penstock override {job} --drop`" if layer == "oncall" else f"`penstock layers drop {job} {layer}`"


def _ended_at(connection: JobClient, job: str, layer: str, version: int) -> datetime | None:
    """When an earlier version of a layer was to end, where that has passed."""
    entry = next((each for each in connection.layer_history(job, layer) if each.version == version), None)
    ends_at = None if entry is None else entry.expires_at
    return ends_at if ends_at is not None and ends_at <= datetime.now(UTC) else None


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
    ends = "" if leaf.expires_at is None else f" (ends {end(leaf.expires_at)})"
    return f"{leaf.author}, {cell(leaf.written_at)}{why}{ends}"


def _hidden(values: list[HiddenValueView]) -> str:
    return ", ".join(f"{hidden.layer}={leaf(hidden.value)}" for hidden in values)


def plan(
    job: Job,
    layer: LayerOrNone = None,
    config: ChangeOrNone = None,
    as_json: AsJson = False,
    verify: Verify = True,
    allow_repeats: AllowRepeats = False,
    within: Annotated[
        str, typer.Option("--within", help="how long to ask again while no host has analysed the job: 30s, 10m")
    ] = WITHIN,
) -> None:
    """Show what a change would do, without making it. Exit code 1: it would be refused; 5: nobody has checked it.

    The job need not exist: `plan JOB base FILE`. Prints the fields that change, the steps, the tasks that restart, for
    how long they are down, and what Spark finds. `plan JOB` alone says what Spark finds in the job as it is.

    A cold host may need minutes for its first analysis. Until --within the command asks again; then it ends with 5.
    """
    content = change_of(config or ["{}"], names=names_in_files(job))
    seconds, connection = duration_seconds(within, field="within"), client()
    asked = partial(connection.plan, layer=layer, verify=verify, allow_repeats=allow_repeats)
    answer = asked_until_answered(lambda: asked(job, content), seconds)
    if as_json:
        show_json(answer)
    else:
        say_plan(answer)
    end_unless_done(answer)


def say_plan(answer: PlanView) -> None:
    """The fields that change, the steps and their costs, and what Spark finds.

    Long texts stand whole below the table.
    """
    if answer.fields or answer.is_new:
        table(*plan_table(answer), title=plan_title(answer))
    else:
        say(plan_title(answer), style="bold")
    long = [line for each in answer.fields for line in difference(each)]
    for sentence in (*long, *plan_outcome(answer), *analysis_outcome(answer.analysis)):
        say(sentence)


def plan_title(answer: PlanView) -> str:
    """What a plan is of. A job that has never run may change in any field."""
    if answer.is_new:
        return f"{answer.job}: new job"
    return f"{answer.job}: change kind {answer.kind}" if answer.fields else f"{answer.job}: no field changes"


def plan_table(answer: PlanView) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headings and rows of the fields that change, with their change kinds where these count."""
    kinds = not answer.is_new
    rows = [(each.field, *_sides(each), *((each.kind,) if kinds else ())) for each in answer.fields]
    return ("field", "old", "new", *(("change kind",) if kinds else ())), rows


def _sides(change: FieldChangeView) -> tuple[str, str]:
    if not _is_long(change):
        return cell(change.old), cell(change.new)
    return ("-" if change.old is None else "below"), ("-" if change.new is None else "below")


def difference(change: FieldChangeView) -> Iterator[str]:
    """The lines of long texts that a change removes (`-`), adds (`+`) and keeps; none for a change of short ones."""
    if _is_long(change):
        old, new = (str(side).splitlines() if side is not None else [] for side in (change.old, change.new))
        yield f"{change.field}:"
        yield from (f"  {line}" for line in ndiff(old, new) if not line.startswith("?"))


def _is_long(change: FieldChangeView) -> bool:
    texts = [side for side in (change.old, change.new) if isinstance(side, str)]
    return any(len(text) > _LONGEST_IN_TABLE or "\n" in text for text in texts)


def plan_outcome(answer: PlanView) -> Iterator[str]:
    """The steps of a plan and what they cost, one line each."""
    waves = {f"wave_{number}": f": {', '.join(tasks)}" for number, tasks in enumerate(answer.waves, 1)}
    yield from (f"{number}. {step}{waves.get(step, '')}" for number, step in enumerate(answer.steps, 1))
    times = (("down for", answer.downtime_seconds), ("catches up in", answer.catch_up_seconds))
    costs = [f"{what} {'an unknown time' if value is None else f'{value:,.1f} s'}" for what, value in times]
    yield f"touches {counted(len(answer.tasks_touched), 'task')}; {'; '.join(costs)}"
    if answer.completeness is not None:
        yield f"watermarks: {_WATERMARKS[answer.completeness]}"
    yield from (f"NOTE {note}" for note in answer.notes)
    if not answer.allowed:
        yield "NOT ALLOWED: the write would be refused"


def analysis_outcome(analysis: AnalysisView | None) -> Iterator[str]:
    """What Spark finds in a job, a line for each finding."""
    if analysis is None:
        return
    for problem in analysis.problems:
        yield f"PROBLEM {problem['field']} ({problem['rule']}): {problem['detail']}"
    for operator in analysis.operators:
        by = f" by ({', '.join(operator['by'])})" if operator["by"] else ""
        where = "are in one task" if operator["colocated"] else "may be in several tasks"
        yield f"state: {operator['operation']}{by} over {', '.join(operator['inputs'])}; rows with the same key {where}"
    if analysis.columns is not None:
        yield f"result: {', '.join(f'{name} {kind}' for name, kind in analysis.columns.items())}"
    if not analysis.verified and (analysis.why or not analysis.problems):
        yield from unverified_outcome(analysis)
