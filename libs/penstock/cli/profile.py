"""`penstock jobs profile`: how fast one task of a job is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

import typer

from penstock.cli.arguments import AsJson, Job, Reason, Timeout, WaitForProfile
from penstock.cli.connection import client
from penstock.cli.output import figure, say, show_json
from penstock.cli.parse import duration_seconds
from penstock.cli.patience import await_cluster
from penstock.control.errors import Conflict, NotFound
from penstock.tasks.profile import LEAST_BATCHES, ProfileReport
from penstock.wire.job_client import JobClient
from penstock.wire.profiles import ProfileView

_POLL_SECONDS = 0.5


def profile(
    job: Job,
    seconds: Annotated[
        str, typer.Option("--for", help="for how long the query runs: 5s to 10m; it ends early when all is read")
    ] = "60s",
    reason: Reason = "",
    last: Annotated[
        bool, typer.Option("--last", help="ask for none: show the newest profile; waits for one that is under way")
    ] = False,
    wait: WaitForProfile = True,
    timeout: Timeout = "15m",
    as_json: AsJson = False,
) -> None:
    """Measure how many rows per second one task of a job gets through, in a run that writes nothing.

    The query of the first task runs for a while, from the beginning of its topics, and its results are thrown away.
    The job need not run.
    The Auto Scaler uses the figure until the job's own tasks have been busy for some minutes.
    """
    connection, lasts, patience = client(), duration_seconds(seconds), duration_seconds(timeout, field="timeout")
    asked = _newest(connection, job) if last else connection.create_profile(job, lasts, reason=reason)
    if not wait:
        state = asked.state if last else "requested"
        return say(f"profile {asked.number} of {job} is {state}; later: `penstock jobs profile {job} --last`")
    view = _finished(connection, asked, patience, announce=not as_json)
    if view.state == "failed" or view.report is None:
        raise Conflict(f"profile {view.number} of {job} failed: {view.detail}", field="job", rule="can_be_profiled")
    if as_json:
        return show_json(view)
    for line in lines(view, view.report):
        say(line)


def _newest(connection: JobClient, job: str) -> ProfileView:
    found = connection.profiles(job, limit=1).profiles
    if not found:
        raise NotFound(f"{job} has no profile yet: run the command without --last", field="last", rule="known")
    return found[0]


def _finished(connection: JobClient, asked: ProfileView, patience: float, *, announce: bool) -> ProfileView:
    said = ""
    began_at: float | None = None

    def share() -> float | None:
        """Of the time that the query runs for, as far as it is known when it began."""
        return None if began_at is None else min(1.0, (time.monotonic() - began_at) / asked.seconds)

    def ended() -> ProfileView | None:
        """The profile, once it has ended; says how far it is."""
        nonlocal said, began_at
        view = connection.profile(asked.job, asked.number)
        told = view.detail or ("waits for a Spark host" if view.container is None else f"runs on {view.container}")
        if view.container is not None and began_at is None:
            began_at = time.monotonic()
        if announce and view.state == "asked" and told != said:
            said = told
            say(f"profile {asked.number} of {asked.job}: {told}")
        return None if view.state == "asked" else view

    found = await_cluster(connection, ended, patience, "the profile", poll_s=_POLL_SECONDS, share=share)
    assert found is not None
    return found


def lines(view: ProfileView, report: ProfileReport) -> Iterator[str]:
    """What a profile shows, for people. Pure."""
    rate, low = figure(report.rows_per_second), figure(report.low_rows_per_second)
    yield f"one task of {view.job} does {rate} rows/s while it works; nine batches in ten did {low} or more"
    groups = "1 key group" if report.key_groups == 1 else f"{report.key_groups} key groups"
    ended = "it read all there was" if report.read_all else "its time was over"
    batches = f"{report.rows:,} rows in {report.batches:,} batches of {groups}"
    yield f"measured: {batches}, {report.seconds:,.1f} s of work; {ended}"
    if report.state_rows:
        size = "" if report.state_memory_bytes is None else f", {report.state_memory_bytes:,} bytes of memory"
        yield f"its state had {report.state_rows:,} rows at the end{size}"
    tasks = int(view.config.get("task_count", 1))
    if report.rows_per_second is not None and tasks > 1:
        yield f"{tasks} tasks carry {figure(tasks * report.rows_per_second)} rows/s if each gets as much"
    if report.batches < LEAST_BATCHES:
        yield "these are few batches, of cold code, so the Auto Scaler does not use the rate: feed the topics first"
