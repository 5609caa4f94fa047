"""Commands about jobs: what they should be, what they are, and how they came to be so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import httpx
import typer

from penstock.cli.errors import required
from penstock.cli.output import cell, changes, figure, say, show_json, table
from penstock.cli.parse import expiry_seconds, json_object
from penstock.cli.settings import CliSettings
from penstock.control.errors import UserError
from penstock.store.records import JobState
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import ExplainedLeafView, HiddenValueView, PlanView, Written

Job = Annotated[str, typer.Argument(help="job name")]
Layer = Annotated[str, typer.Argument(help="layer: base, provisioner, scaler, oncall, ...")]
Config = Annotated[str, typer.Argument(help="a JSON object, or a file that holds one")]
Reason = Annotated[str, typer.Option("--reason", "-r", help="why; kept in the history")]
Version = Annotated[int | None, typer.Option("--if-match", help="refuse unless it is the layer's version")]
AsJson = Annotated[bool, typer.Option("--json", help="the whole answer as JSON")]

DEFAULT_LAYER = "default"

jobs = typer.Typer(no_args_is_help=True, help="create, change, list and delete jobs")
layers = typer.Typer(no_args_is_help=True, help="read and write the layers of a job")


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the program."""
    app.add_typer(jobs, name="jobs")
    app.add_typer(layers, name="layers")
    for command in (explain, plan, override, history, revert, restart, release, tasks, sync):
        app.command()(command)


def client() -> JobClient:
    """A client with the settings of this shell. Raises UserError when they name no address or no token."""
    settings = CliSettings()
    url = settings.service_url()
    try:
        return JobClient(url, settings.bearer_token())
    except httpx.InvalidURL as error:
        raise UserError(f"{url} is no address: {error}", field="PENSTOCK_URL", rule="url") from error


def _definition(config: str) -> dict[str, Any]:
    return json_object(config, names={"data_dir": str(CliSettings().data_dir.absolute())})


def say_written(written: Written) -> None:
    """A line about a write that was done."""
    version = "" if written.version is None else f", version {written.version}"
    layer = "" if written.layer is None else f" {written.layer}"
    ends = "" if written.expires_at is None else f", ends {cell(written.expires_at)}"
    say(f"{written.action} {written.job}{layer}: revision {written.revision}{version}{ends}")


@jobs.command("list")
def list_(
    prefix: Annotated[str | None, typer.Option(help="names that begin so")] = None,
    owner: Annotated[str | None, typer.Option()] = None,
    state: Annotated[JobState | None, typer.Option()] = None,
    as_json: AsJson = False,
) -> None:
    """All jobs, by name."""
    found = list(client().list_jobs(prefix=prefix, owner=owner, state=state))
    if as_json:
        return show_json(*found)
    headings = ("job", "state", "converged", "revision", "running", "generation", "owner")
    rows = [(j.job, j.state, j.converged, j.revision, j.running_revision, j.generation, j.owner) for j in found]
    return table(headings, rows)


@jobs.command("show")
def show(job: Job) -> None:
    """One job: merged configuration, layer versions, state."""
    show_json(client().get_job(job))


@jobs.command("apply")
def apply(job: Job, config: Config, reason: Reason = "") -> None:
    """Create a job, or replace its base layer. `${data_dir}` in a file is the data folder of `penstock up`."""
    say_written(client().put_job(job, _definition(config), reason=reason))


@jobs.command("delete")
def delete(job: Job, reason: Reason = "") -> None:
    """Stop the tasks of a job, then forget it; its history stays."""
    say_written(client().delete_job(job, reason=reason))


@layers.command("show")
def layer_show(job: Job, layer: Layer) -> None:
    """What one layer of a job says."""
    show_json(client().get_layer(job, layer))


@layers.command("patch")
def layer_patch(job: Job, layer: Layer, config: Config, reason: Reason = "", if_match: Version = None) -> None:
    """Merge a change into a layer; null drops a key."""
    change, connection = json_object(config), client()
    version = _version(connection, job, layer, if_match)
    say_written(connection.patch_layer(job, layer, change, if_match=version, reason=reason))


@layers.command("drop")
def layer_drop(job: Job, layer: Layer, reason: Reason = "", if_match: Version = None) -> None:
    """Drop a layer: what it hid comes back."""
    connection = client()
    say_written(connection.drop_layer(job, layer, if_match=_version(connection, job, layer, if_match), reason=reason))


def _version(connection: JobClient, job: str, layer: str, if_match: int | None) -> int:
    """The version that a write is to replace: the one that the user has read, else the present one."""
    return connection.get_layer(job, layer).version if if_match is None else if_match


def override(
    job: Job,
    config: Annotated[str | None, typer.Argument(help="a JSON object; null drops a key")] = None,
    reason: Reason = "",
    for_: Annotated[str | None, typer.Option("--for", help="30m, 2h, 1d, never; the layer's default if absent")] = None,
    drop: Annotated[bool, typer.Option("--drop", help="end the override")] = False,
) -> None:
    """Override a job's settings in the `oncall` layer, with a reason and an expiry."""
    if drop:
        return layer_drop(job, "oncall", reason)
    if config is None:
        raise required("say what to override as a JSON object, or --drop to end the override", field="config")
    if not reason.strip():
        raise required('say why: --reason "..."; whoever is on call next will want to know', field="reason")
    change, connection = json_object(config), client()
    expiry = expiry_seconds(for_)
    version = connection.get_layer(job, "oncall").version
    written = connection.patch_layer(job, "oncall", change, if_match=version, reason=reason, expires_in_seconds=expiry)
    return say_written(written)


def explain(
    job: Job,
    all_: Annotated[bool, typer.Option("--all", "-a", help="also the fields that no layer sets")] = False,
    as_json: AsJson = False,
) -> None:
    """For each field: its value, who set it, when, why, and what it hides."""
    answer = client().explain(job)
    if as_json:
        return show_json(answer)
    shown = [leaf for leaf in answer.leaves if all_ or leaf.layer != DEFAULT_LAYER or leaf.hides]
    rows = [(leaf.field, _value(leaf), leaf.layer, _origin(leaf), _hidden(leaf.hides)) for leaf in shown]
    table(("field", "value", "layer", "set by", "hides"), rows, title=f"{job} at revision {answer.revision}")
    if len(shown) < len(answer.leaves):
        say(f"{len(answer.leaves) - len(shown)} fields at their defaults are not shown: --all")
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


def plan(job: Job, layer: Layer, config: Config, as_json: AsJson = False) -> None:
    """What a change would do, without doing it."""
    answer = client().plan(job, json_object(config), layer=layer)
    if as_json:
        return show_json(answer)
    rows = [(change.field, change.old, change.new, change.kind) for change in answer.fields]
    table(("field", "old", "new", "change kind"), rows, title=f"{job}: change kind {answer.kind}")
    for sentence in plan_outcome(answer):
        say(sentence)
    return None


_WATERMARKS = {
    "wait": "tasks that lag read on to the others' first (completeness: wait)",
    "drop_late": "rows that tasks which lag have not read are late (completeness: drop_late)",
}


def plan_outcome(answer: PlanView) -> Iterator[str]:
    """A plan's steps and what they cost, a line each."""
    waves = {f"wave_{number}": f": {', '.join(tasks)}" for number, tasks in enumerate(answer.waves, 1)}
    yield from (f"{number}. {step}{waves.get(step, '')}" for number, step in enumerate(answer.steps, 1))
    times = (("down for", answer.downtime_seconds), ("catches up in", answer.catch_up_seconds))
    costs = [f"{what} {'an unknown time' if value is None else f'{value:,.1f} s'}" for what, value in times]
    yield f"touches {len(answer.tasks_touched)} tasks; {'; '.join(costs)}"
    if answer.completeness is not None:
        yield f"watermarks: {_WATERMARKS[answer.completeness]}"
    if not answer.allowed:
        yield "NOT ALLOWED: the write would be refused"


def history(job: Job, as_json: AsJson = False) -> None:
    """Who changed what, when and why; newest first."""
    page = client().history(job)
    if as_json:
        return show_json(page)
    rows = [
        (e.revision, e.at, e.action, e.layer, e.version, e.author, e.reason, "\n".join(changes(e.old, e.new)))
        for e in page.entries
    ]
    table(("revision", "when", "action", "layer", "version", "author", "reason", "changes"), rows)
    return say_more(page.next)


def revert(
    job: Job,
    layer: Layer,
    version: Annotated[int, typer.Argument(min=0, help="see `penstock history`; 0: as if never written")],
    reason: Reason = "",
    if_match: Version = None,
) -> None:
    """Set a layer back to what it was at a version."""
    connection = client()
    present = _version(connection, job, layer, if_match)
    say_written(connection.revert_layer(job, layer, version, if_match=present, reason=reason))


def restart(job: Job, reason: Reason = "") -> None:
    """Restart a job's tasks; their state is kept."""
    say_written(client().restart(job, reason=reason))


def release(job: Job, reason: Reason = "") -> None:
    """Let a quarantined job be synchronised again."""
    say_written(client().release(job, reason=reason))


def tasks(job: Job, as_json: AsJson = False) -> None:
    """The tasks of a job, where they run, and how they are."""
    answer = client().tasks(job)
    if as_json:
        return show_json(answer)
    rows = [
        (t.task, t.state, t.container, t.revision, t.generation, t.crashes, *_figures(t.progress or {}), t.error)
        for t in answer.tasks
    ]
    headings = ("task", "state", "container", "revision", "generation", "crashes", "backlog", "rows/s", "error")
    return table(headings, rows)


def _figures(progress: dict[str, Any]) -> tuple[str, str]:
    return figure(progress.get("backlog_records")), figure(progress.get("processed_rows_per_second"))


def say_more(cursor: str | None) -> None:
    """Says so when an answer is only the first page."""
    if cursor is not None:
        say("there are more: only the first page is shown")


def sync(job: Job) -> None:
    """How far a job is from what it should be, and what holds it up."""
    show_json(client().sync(job))
