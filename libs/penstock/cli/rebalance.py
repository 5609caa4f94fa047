"""`penstock rebalance`: ranges of key groups that follow the measured traffic."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.jobs import Job, Reason, client, plan_outcome, say_written
from penstock.cli.output import figure, say, table
from penstock.cli.parse import duration_seconds, expiry_seconds
from penstock.cli.rescale import watch
from penstock.wire.balance import BalanceView, LoadView
from penstock.wire.job_client import JobClient


def add_to(app: typer.Typer) -> None:
    """Adds the command to the program."""
    app.command()(rebalance)


def rebalance(
    job: Job,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="show what would be done, and the plan; do nothing")
    ] = False,
    min_gain: Annotated[
        float, typer.Option(min=0, max=0.99, help="refuse when the busiest task loses a smaller share of its input")
    ] = 0.1,
    measured: Annotated[str, typer.Option("--measured", help="tasks that measured for less are unknown")] = "60s",
    reason: Reason = "",
    for_: Annotated[str | None, typer.Option("--for", help="30m, 2h, 1d, then back; it stays if absent")] = None,
    wait: Annotated[str, typer.Option("--wait", help="how long to wait for the end")] = "10m",
    no_wait: Annotated[bool, typer.Option("--no-wait", help="return at once; `penstock sync` shows the plan")] = False,
) -> None:
    """Move the borders between a job's tasks so that each gets as equal a part of the input as can be."""
    connection, least, seconds = client(), duration_seconds(measured), duration_seconds(wait)
    if dry_run:
        return _show(connection, job, least)
    done = connection.rebalance(
        job,
        min_gain=min_gain,
        min_measured_seconds=least,
        reason=reason,
        expires_in_seconds=expiry_seconds(for_),
    )
    _say_balance(done)
    say_written(done.written)
    return None if no_wait else watch(connection, job, done.written.revision, seconds)


def _show(connection: JobClient, job: str, least_seconds: int) -> None:
    found = connection.balance(job, min_measured_seconds=least_seconds)
    _say_balance(found)
    if found.bounds:
        for sentence in plan_outcome(connection.plan(job, {"key_group_bounds": found.bounds})):
            say(sentence)


def _say_balance(found: BalanceView) -> None:
    known = sum(rate is not None for rate in found.records_per_second)
    say(f"{found.job}: the traffic of {known} of {len(found.records_per_second)} key groups is known")
    rows = [("present", found.present, *_load(found.before)), ("proposed", found.bounds, *_load(found.after))]
    table(("ranges", "begin at", "busiest task, records/s", "times the mean"), rows)
    if found.bounds is None:
        say("too little is known to propose ranges")


def _load(load: LoadView | None) -> tuple[str, str]:
    if load is None:
        return figure(None), figure(None)
    return f"{load.largest_records_per_second:,.1f}", f"{load.imbalance:.2f}"
