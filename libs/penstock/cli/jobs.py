"""Commands about jobs: what they should be, what they are, and how they came to be so."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from penstock.cli.output import out, show_json, table
from penstock.cli.parse import duration_seconds, json_object
from penstock.cli.settings import CliSettings
from penstock.store.records import JobState
from penstock.wire.job_client import Expires, JobClient
from penstock.wire.jobs import Written

Job = Annotated[str, typer.Argument(help="job name")]
Layer = Annotated[str, typer.Argument(help="layer: base, provisioner, scaler, oncall, ...")]
Config = Annotated[str, typer.Argument(help="a JSON object, or a file that holds one")]
Reason = Annotated[str, typer.Option("--reason", "-r", help="why; kept in the history")]
AsJson = Annotated[bool, typer.Option("--json", help="the whole answer as JSON")]

jobs = typer.Typer(no_args_is_help=True, help="create, change, list and delete jobs")
layers = typer.Typer(no_args_is_help=True, help="read and write the layers of a job")


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the program."""
    app.add_typer(jobs, name="jobs")
    app.add_typer(layers, name="layers")
    for command in (explain, plan, override, history, revert, restart, release, tasks, sync):
        app.command()(command)


def client() -> JobClient:
    """A client with the settings of this shell."""
    settings = CliSettings()
    return JobClient(settings.service_url(), settings.bearer_token())


def _definition(config: str) -> dict[str, Any]:
    return json_object(config, names={"data_dir": str(CliSettings().data_dir.absolute())})


def _say(written: Written) -> None:
    version = "" if written.version is None else f", version {written.version}"
    layer = "" if written.layer is None else f" {written.layer}"
    out.print(f"{written.action} {written.job}{layer}: revision {written.revision}{version}")


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
    _say(client().put_job(job, _definition(config), reason=reason))


@jobs.command("delete")
def delete(job: Job) -> None:
    """Stop the tasks of a job, then forget it; its history stays."""
    _say(client().delete_job(job))


@layers.command("show")
def layer_show(job: Job, layer: Layer) -> None:
    """What one layer of a job says."""
    show_json(client().get_layer(job, layer))


@layers.command("patch")
def layer_patch(job: Job, layer: Layer, config: Config, reason: Reason = "") -> None:
    """Merge a change into a layer; null drops a key."""
    connection = client()
    version = connection.get_layer(job, layer).version
    _say(connection.patch_layer(job, layer, json_object(config), if_match=version, reason=reason))


@layers.command("drop")
def layer_drop(job: Job, layer: Layer) -> None:
    """Drop a layer: what it hid comes back."""
    connection = client()
    _say(connection.drop_layer(job, layer, if_match=connection.get_layer(job, layer).version))


def override(
    job: Job,
    config: Annotated[str | None, typer.Argument(help="a JSON object; null drops a key")] = None,
    reason: Reason = "",
    for_: Annotated[str | None, typer.Option("--for", help="30s, 30m, 2h, 1d; the layer's default if absent")] = None,
    drop: Annotated[bool, typer.Option("--drop", help="end the override")] = False,
) -> None:
    """Override a job's settings in the `oncall` layer, with a reason and an expiry."""
    if drop:
        return layer_drop(job, "oncall")
    if config is None or not reason:
        raise typer.BadParameter("an override needs a JSON object and --reason")
    connection = client()
    expiry: Expires = "default" if for_ is None else duration_seconds(for_)
    version = connection.get_layer(job, "oncall").version
    change = json_object(config)
    written = connection.patch_layer(job, "oncall", change, if_match=version, reason=reason, expires_in_seconds=expiry)
    return _say(written)


def explain(job: Job, as_json: AsJson = False) -> None:
    """For each field: its value, who set it, when, why, and what it hides."""
    answer = client().explain(job)
    if as_json:
        return show_json(answer)
    rows = [
        (
            leaf.field,
            leaf.value,
            leaf.layer,
            leaf.author,
            leaf.written_at,
            leaf.expires_at,
            leaf.reason,
            _hidden(leaf.hides),
        )
        for leaf in answer.leaves
    ]
    return table(("field", "value", "layer", "author", "written", "expires", "reason", "hides"), rows)


def _hidden(values: list[Any]) -> str:
    return ", ".join(f"{hidden.layer}={hidden.value}" for hidden in values)


def plan(job: Job, layer: Layer, config: Config) -> None:
    """What a change would do, without doing it."""
    answer = client().plan(job, json_object(config), layer=layer)
    rows = [(change.field, change.old, change.new, change.kind) for change in answer.fields]
    table(("field", "old", "new", "change kind"), rows, title=f"{job}: {answer.kind}")
    for number, step in enumerate(answer.steps, 1):
        out.print(f"{number}. {step}")
    if answer.waits_for:
        out.print(f"waits for: {answer.waits_for}")


def history(job: Job, as_json: AsJson = False) -> None:
    """Who changed what, when and why; newest first."""
    page = client().history(job)
    if as_json:
        return show_json(page)
    rows = [(e.revision, e.at, e.action, e.layer, e.version, e.author, e.reason, e.new) for e in page.entries]
    return table(("revision", "when", "action", "layer", "version", "author", "reason", "new content"), rows)


def revert(job: Job, layer: Layer, version: int, reason: Reason = "") -> None:
    """Set a layer back to what it was at a version."""
    connection = client()
    _say(connection.revert_layer(job, layer, version, if_match=connection.get_layer(job, layer).version, reason=reason))


def restart(job: Job, reason: Reason = "") -> None:
    """Restart a job's tasks; their state is kept."""
    _say(client().restart(job, reason=reason))


def release(job: Job, reason: Reason = "") -> None:
    """Let a quarantined job be synchronised again."""
    _say(client().release(job, reason=reason))


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


def _figures(progress: dict[str, Any]) -> tuple[Any, Any]:
    return progress.get("backlog_records"), progress.get("processed_rows_per_second")


def sync(job: Job) -> None:
    """How far a job is from what it should be, and what holds it up."""
    show_json(client().sync(job))
