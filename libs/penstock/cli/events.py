"""`penstock events`: every write to jobs, as it comes."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated

import typer

from penstock.cli.arguments import AsJson
from penstock.cli.connection import client
from penstock.cli.output import cell, changes, clock, say
from penstock.cli.parse import name_of
from penstock.wire.jobs import HistoryEntry


def events(
    job: Annotated[str | None, typer.Argument(help="only writes to this job", callback=name_of("job"))] = None,
    layer: Annotated[
        str | None, typer.Option("--layer", help="only writes to this layer", callback=name_of("layer"))
    ] = None,
    after: Annotated[
        int | None, typer.Option("--after", min=0, help="the id of an event: those after it come first; default: now")
    ] = None,
    after_revision: Annotated[
        int | None, typer.Option("--after-revision", min=0, help="of one job: the revision of the last known write")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Follow every write to a job, or to all jobs, as it comes. Ctrl-C ends it.

    A connection that breaks is made again; no write is skipped or comes twice. With --json each is a line of JSON.
    """
    with suppress(KeyboardInterrupt):
        for entry in client().events(after=after, after_revision=after_revision, job=job, layer=layer):
            if as_json:
                typer.echo(entry.model_dump_json())
            else:
                say(line_of(entry))


def line_of(entry: HistoryEntry) -> str:
    """An event for people. Pure."""
    what = "; ".join(changes(entry.old, entry.new))
    told = f"{entry.action} {entry.layer}" if entry.layer else entry.action
    why = f" ({entry.reason})" if entry.reason else ""
    changed = f": {cell(what)}" if what else ""
    return f"{entry.id}  {clock(entry.at, datetime.now(UTC))}  {entry.job}  {told} by {entry.author}{why}{changed}"
