"""`penstock jobs stop` and `start`: the field `desired_state`, in the layer where it counts."""

from __future__ import annotations

from penstock.cli.arguments import AllowRepeats, ForTime, Job, Reason, Timeout, WaitUntilDone, WholeLayer
from penstock.cli.connection import client, say_written
from penstock.cli.output import cell, say
from penstock.cli.parse import duration_seconds, expiry_seconds
from penstock.cli.waiting import wait_for
from penstock.config.model import DesiredState
from penstock.control.errors import Conflict
from penstock.wire.desired import FIELD, Change, start_change
from penstock.wire.job_client import Expiring, JobClient
from penstock.wire.jobs import ExplainedLeafView, Written

_BASE = "base"


def stop(
    job: Job,
    reason: Reason = "",
    for_: ForTime = None,
    whole_layer: WholeLayer = False,
    wait: WaitUntilDone = False,
    timeout: Timeout = "5m",
) -> None:
    """Stop the tasks of a job. `jobs start` continues where they stopped.

    Sets `desired_state` in `oncall`, or else in the highest layer that the token may write.
    """
    connection, seconds = client(), duration_seconds(timeout, field="timeout")
    leaf, revision = _now(connection, job)
    if leaf.value == DesiredState.STOPPED:
        say(f"{job} is stopped already, by the layer {leaf.layer}")
    else:
        written = _stop(connection, job, reason, for_, whole_layer=whole_layer)
        say_written(written)
        _require_effect(connection, job)
        revision = written.revision
    if wait:
        wait_for(connection, job, revision, seconds)


def start(
    job: Job,
    reason: Reason = "",
    allow_repeats: AllowRepeats = False,
    wait: WaitUntilDone = False,
    timeout: Timeout = "5m",
) -> None:
    """Start the tasks of a job that was stopped. They continue where they stopped.

    Takes `desired_state` out of the layer that stops the job. If a lower layer also stops the job, sets
    `desired_state` to running in that layer instead.
    """
    connection, seconds = client(), duration_seconds(timeout, field="timeout")
    leaf, revision = _now(connection, job)
    change = start_change(leaf)
    if change is None:
        say(f"{job} is already set to run: `penstock jobs show {job}` and `penstock tasks {job}` show its state")
    else:
        written = _start(connection, job, change, reason, allow_repeats=allow_repeats)
        say_written(written)
        revision = written.revision
    if wait:
        wait_for(connection, job, revision, seconds)


def _now(connection: JobClient, job: str) -> tuple[ExplainedLeafView, int]:
    explained = connection.explain(job)
    return next(leaf for leaf in explained.leaves if leaf.field == FIELD), explained.revision


def _stop(connection: JobClient, job: str, reason: str, for_: str | None, *, whole_layer: bool) -> Written:
    change = {FIELD: DesiredState.STOPPED.value}
    # The layer that the Job Service chooses for this token.
    layer = connection.get_layer(job, connection.plan(job, change, verify=False).layer)
    if layer.expires_at is not None and for_ is None:
        raise Conflict(
            f"the layer {layer.layer} ends {cell(layer.expires_at)}, and the job would start again then: give "
            "the expiry of the whole layer with --for 2h --whole-layer, or --for never --whole-layer",
            field="for",
            rule="given_when_the_layer_expires",
        )
    expires = None if for_ is None else expiry_seconds(for_)
    given = Expiring(reason=reason, expires_in_seconds=expires, whole_layer=whole_layer)
    return connection.patch_layer(job, layer.layer, change, if_match=layer.version, **given)


def _require_effect(connection: JobClient, job: str) -> None:
    leaf, _ = _now(connection, job)
    if leaf.value != DesiredState.STOPPED:
        raise Conflict(
            f"{job} still runs, because the layer {leaf.layer} overrides this one (see `penstock explain {job}`)",
            field=FIELD,
            rule="hidden",
        )


def _start(connection: JobClient, job: str, change: Change, reason: str, *, allow_repeats: bool) -> Written:
    layer = connection.get_layer(job, change.layer)
    if change.value is None and set(layer.config or ()) == {FIELD} and layer.layer != _BASE:
        return connection.drop_layer(
            job, layer.layer, if_match=layer.version, allow_repeats=allow_repeats, reason=reason
        )
    # Without an expiry of its own the patch keeps that of the layer.
    return connection.patch_layer(
        job, layer.layer, {FIELD: change.value}, if_match=layer.version, allow_repeats=allow_repeats, reason=reason
    )
