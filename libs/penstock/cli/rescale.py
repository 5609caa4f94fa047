"""How a job's input is shared: another number of tasks, or ranges of key groups that follow the measured traffic."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from penstock.cli.arguments import ForTime, Job, Reason, Timeout, WaitOrNot, WholeLayer
from penstock.cli.connection import client, say_written
from penstock.cli.layers import plan_outcome
from penstock.cli.output import figure, say, table
from penstock.cli.parse import duration_seconds, expiry_seconds
from penstock.cli.patience import await_cluster
from penstock.cli.waiting import GIVEN_UP, POLL_SECONDS, wait_for
from penstock.control.errors import Conflict
from penstock.model.jobs import JobState
from penstock.wire.balance import BalanceView, LoadView
from penstock.wire.job_client import Expiring, JobClient
from penstock.wire.overview import SyncView

_GIVE_UP = "ask for the old size"


def rescale(
    job: Job,
    tasks: Annotated[int, typer.Argument(min=1, help="the new number of tasks")],
    reason: Reason = "",
    for_: ForTime = None,
    whole_layer: WholeLayer = False,
    within: Annotated[
        str | None,
        typer.Option(
            "--within",
            help="how long tasks may finish their batches and catch up: 90s, 10m; default: 10m. If they need longer, "
            "or are expected to, the rescale is taken back and nothing was stopped",
        ),
    ] = None,
    wait: WaitOrNot = None,
    timeout: Timeout = "10m",
) -> None:
    """Change the number of tasks of a job. No row is lost or counted twice.

    Keyed state is copied while the tasks run. Then they finish their batches, and tasks that are behind read on to the
    watermark of the others. Only then the job stops, the offsets and what changed since are moved, and the new tasks
    start. If the rescale fails, the old tasks continue.
    """
    connection, seconds = client(), duration_seconds(timeout, field="timeout")
    limit = None if within is None else duration_seconds(within)
    given = Expiring(reason=reason, expires_in_seconds=expiry_seconds(for_), whole_layer=whole_layer)
    written = connection.rescale(job, tasks, within_seconds=limit, **given)
    say_written(written)
    if wait is not False:
        watch(connection, job, written.revision, seconds, batches=bool(wait))


def watch(
    connection: JobClient, job: str, revision: int, seconds: float, *, give_up: str = _GIVE_UP, batches: bool = False
) -> None:
    """Says each step of the plan once, and again where it takes long, until the job runs the write; with `batches` also
    until every task has finished a batch or has nothing to read.

    Raises Conflict when the plan failed, with `give_up`: how to take back what was asked for.
    """
    said: set[str] = set()
    until = time.monotonic() + seconds
    step = f"waiting for the State Syncer to take revision {revision}"

    def has_ended() -> bool:
        """Whether the plan has; says each step."""
        nonlocal step
        view = connection.sync(job)
        if view.detail and (view.sync_revision or 0) >= revision:
            step = f"{view.state}: {view.detail}"
            if step not in said:
                said.add(step)
                say(step)
        return _has_ended(view, revision)

    await_cluster(
        connection,
        has_ended,
        seconds,
        f"{job} to run revision {revision}: see `penstock sync`",
        poll_s=POLL_SECONDS,
        step=lambda: step,
    )
    view = connection.sync(job)
    if view.state in GIVEN_UP:
        raise Conflict(
            f"{job} is {view.state} and runs as before: {view.detail}. {_what_follows(view, give_up)}", rule="rescaled"
        )
    say(f"{job} runs revision {view.running_revision} as generation {view.generation}")
    if batches:
        wait_for(connection, job, revision, max(0.0, until - time.monotonic()))


def _what_follows(view: SyncView, give_up: str) -> str:
    if view.state == JobState.FAILED:
        return f"Penstock tries it again: see `penstock sync {view.job}`. To give it up, {give_up}"
    return f"Penstock does not try it again until `penstock release {view.job}` or another change"


def _has_ended(view: SyncView, revision: int) -> bool:
    runs = view.running_revision is not None and view.running_revision >= revision
    given_up = view.state in GIVEN_UP and (view.sync_revision or 0) >= revision
    return given_up or (runs and view.plan is None)


def rebalance(
    job: Job,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show the proposal and its plan; change nothing")] = False,
    min_gain: Annotated[
        float,
        typer.Option(min=0, max=0.99, help="refuse unless the busiest task loses at least this share of its input"),
    ] = 0.1,
    measured: Annotated[str, typer.Option("--measured", help="ignore tasks that ran for less time than this")] = "60s",
    reason: Reason = "",
    for_: ForTime = None,
    whole_layer: WholeLayer = False,
    wait: WaitOrNot = None,
    timeout: Timeout = "10m",
) -> None:
    """Give each task of a job an equal share of the input, by the measured traffic."""
    connection, least, seconds = client(), duration_seconds(measured), duration_seconds(timeout, field="timeout")
    if dry_run:
        return _show(connection, job, least)
    given = Expiring(reason=reason, expires_in_seconds=expiry_seconds(for_), whole_layer=whole_layer)
    done = connection.rebalance(job, min_gain=min_gain, min_measured_seconds=least, **given)
    _say_balance(done)
    say_written(done.written)
    return None if wait is False else watch(connection, job, done.written.revision, seconds, batches=bool(wait))


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
    table(("ranges", "start at key group", "busiest task, records/s", "busiest / mean"), rows)
    if found.bounds is None:
        say("no proposal: the traffic of too few key groups is known")


def _load(load: LoadView | None) -> tuple[str, str]:
    if load is None:
        return figure(None), figure(None)
    return f"{load.largest_records_per_second:,.1f}", f"{load.imbalance:.2f}"
