"""Commands about the layers of a job: read, write, override, history."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.arguments import AsJson, Config, IfMatch, Job, Layer, Reason
from penstock.cli.connection import client, say_more, say_written
from penstock.cli.errors import required
from penstock.cli.output import changes, show_json, table
from penstock.cli.parse import expiry_seconds, json_object
from penstock.wire.job_client import JobClient


def show(job: Job, layer: Layer) -> None:
    """Show one layer of a job as JSON."""
    show_json(client().get_layer(job, layer))


def patch(job: Job, layer: Layer, config: Config, reason: Reason = "", if_match: IfMatch = None) -> None:
    """Merge a change into a layer. A null removes a key."""
    change, connection = json_object(config), client()
    version = _version(connection, job, layer, if_match)
    say_written(connection.patch_layer(job, layer, change, if_match=version, reason=reason))


def drop(job: Job, layer: Layer, reason: Reason = "", if_match: IfMatch = None) -> None:
    """Remove a layer from a job. The values that it hid apply again."""
    connection = client()
    say_written(connection.drop_layer(job, layer, if_match=_version(connection, job, layer, if_match), reason=reason))


def _version(connection: JobClient, job: str, layer: str, if_match: int | None) -> int:
    """The version that a write replaces: the one that the user names, else the present one."""
    return connection.get_layer(job, layer).version if if_match is None else if_match


def override(
    job: Job,
    config: Annotated[str | None, typer.Argument(help="a JSON object; a null removes a key")] = None,
    reason: Reason = "",
    for_: Annotated[
        str | None, typer.Option("--for", help="30m, 2h, 1d or never; default: as set for the oncall layer")
    ] = None,
    drop_: Annotated[bool, typer.Option("--drop", help="end the override")] = False,
) -> None:
    """Override settings of a job in the `oncall` layer, with a reason and an expiry."""
    if drop_:
        return drop(job, "oncall", reason)
    if config is None:
        raise required("say what to override as a JSON object, or --drop to end the override", field="config")
    if not reason.strip():
        raise required('say why: --reason "..."; the next person on call will need it', field="reason")
    change, connection = json_object(config), client()
    expiry = expiry_seconds(for_)
    version = connection.get_layer(job, "oncall").version
    written = connection.patch_layer(job, "oncall", change, if_match=version, reason=reason, expires_in_seconds=expiry)
    return say_written(written)


def history(job: Job, as_json: AsJson = False) -> None:
    """Show who changed what, when and why, newest first."""
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
    version: Annotated[int, typer.Argument(min=0, help="see `penstock history`; 0 is before the first write")],
    reason: Reason = "",
    if_match: IfMatch = None,
) -> None:
    """Set a layer back to its content at an earlier version."""
    connection = client()
    present = _version(connection, job, layer, if_match)
    say_written(connection.revert_layer(job, layer, version, if_match=present, reason=reason))
