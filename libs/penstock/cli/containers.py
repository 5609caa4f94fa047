"""Commands about containers: the fleet, and whether each takes shards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated

import typer

from penstock.cli.arguments import AsJson, Job, Reason
from penstock.cli.connection import client
from penstock.cli.output import cell, counted, figure, say, show_data, show_json, span, table
from penstock.cli.parse import duration_seconds, name_of
from penstock.cli.patience import await_cluster
from penstock.cli.task_rows import FIGURES, by_error, figures_of, state_of
from penstock.control.errors import Conflict
from penstock.control.texts import first_few
from penstock.tasks.ownership import DRAINING, OPEN
from penstock.wire.containers import ContainerPage, ContainerView
from penstock.wire.job_client import JobClient
from penstock.wire.overview import ContainerTaskView

Container = Annotated[str, typer.Argument(help="name of the container", callback=name_of("container"))]
NEVER = "never"
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_WAIT_BEYOND_LIMIT_SECONDS = 300.0
_WAIT_WITHOUT_LIMIT_SECONDS = 86_400.0
_POLL_SECONDS = 0.5
_UNKNOWN = figure(None)


def containers(
    name: Annotated[
        str | None, typer.Argument(help="show this container in detail; default: all", callback=name_of("container"))
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List containers: state, load, shards, tasks, age of the lease. Of one also its tasks, of which job each is.

    A load is shown as `3.2 of 8.0 (+4%)`: used, usable, and deviation from the mean of the containers.
    """
    connection = client()
    if name is not None:
        one, tasks = connection.container(name), list(connection.all_container_tasks(name))
        if as_json:
            reported = [task.model_dump(mode="json") for task in tasks]
            return show_data({**one.model_dump(mode="json"), "reported_tasks": reported})
        _show(one)
        return _show_tasks(name, tasks)
    found = list(connection.all_containers())
    if as_json:
        return show_json(ContainerPage(containers=found))
    dimensions = _dimensions(found)
    headings = ("container", "state", "region", *dimensions, "shards", "tasks", "lease")
    return table(headings, [_row(container, dimensions) for container in found])


def cordon(container: Container, reason: Reason = "") -> None:
    """Give a container no new shards. It keeps the shards that it has. If it is being drained, the drain ends."""
    _say_availability(client().cordon(container, reason=reason))


def drain(
    container: Container,
    reason: Reason = "",
    limit: Annotated[
        str, typer.Option(help="30s, 10m, 2h or never: after this time the remaining shards move at once")
    ] = "10m",
    wait: Annotated[bool, typer.Option("--wait", help="show the progress until the container is empty")] = False,
) -> None:
    """Move all shards of a container to other containers.

    A shard moves when another container has room for it, at the latest when the limit ends.
    """
    connection, seconds = client(), None if limit == NEVER else duration_seconds(limit, field="limit")
    _say_availability(connection.drain(container, reason=reason, limit_seconds=seconds))
    if wait:
        longest = _WAIT_WITHOUT_LIMIT_SECONDS if seconds is None else seconds + _WAIT_BEYOND_LIMIT_SECONDS
        _watch(connection, container, longest)


def move(
    job: Job,
    index: Annotated[int, typer.Argument(min=0, help="index of the task")],
    reason: Reason = "",
    for_: Annotated[str, typer.Option("--for", help="how long the task stays away: 10m, 2h; 0: no longer")] = "1h",
) -> None:
    """Move a task that is slow where it runs to another container, with its shard.

    All tasks of its shard, also of other jobs, move with it and restart. It takes about a minute: see `penstock tasks`.
    """
    seconds = 0 if for_.strip() == "0" else duration_seconds(for_, field="for")
    done = client().move_task(job, index, for_seconds=seconds, reason=reason)
    if not seconds:
        say(f"{job}/{index} is on {done.container}, and stays away from no container")
        return
    say(f"{job}/{index} leaves {done.container}, and stays away from it for {for_}")
    if done.unknown is not None:
        say(f"unknown: {done.unknown}; if no other container may take it, it stays")


def uncordon(container: Container, reason: Reason = "") -> None:
    """Let a container take shards again. If it is being drained, the drain ends."""
    _say_availability(client().uncordon(container, reason=reason))


def forget(container: Container, reason: Reason = "") -> None:
    """Forget a container that is lost. If it comes back, it is new."""
    client().forget_container(container, reason=reason)
    say(f"forgot {container}")


def _watch(connection: JobClient, container: str, seconds: float) -> None:
    """Says the progress and the container's alerts, each once. Raises Conflict when somebody ended the drain."""
    said: set[str] = set()
    left: list[int] = []
    await_cluster(
        connection,
        partial(_is_empty, connection, container, said, left),
        seconds,
        f"{container} to be empty: see `penstock containers`",
        poll_s=_POLL_SECONDS,
        share=lambda: 1 - left[-1] / left[0] if left and left[0] else None,
    )
    say(f"{container} is empty")


def _is_empty(connection: JobClient, container: str, said: set[str], left: list[int]) -> bool:
    """`left` gets how many shards and tasks remain."""
    view, alerts = connection.container(container), connection.alerts(subject=container).alerts
    if view.availability != DRAINING:
        raise Conflict(f"the drain of {container} was ended: it is {view.availability}", rule="draining")
    for line in (
        f"{counted(view.shards, 'shard')} and {counted(view.tasks, 'task')} remain",
        *(alert.message for alert in alerts),
    ):
        if line not in said:
            said.add(line)
            say(line)
    left.append(view.shards + view.tasks)
    return left[-1] == 0


def _say_availability(container: ContainerView) -> None:
    limit = "" if container.drain_until is None else f", the remaining shards move {cell(container.drain_until)}"
    counts = f"{counted(container.shards, 'shard')}, {counted(container.tasks, 'task')}"
    say(f"{container.name} is {container.availability}: {counts}{limit}")


def _show(container: ContainerView) -> None:
    why = ("availability_reason", "availability_by", "availability_at", "drain_until")
    names = ("state", "availability", *why, "region", "labels", "url", "shards", "tasks", "registered_at")
    rows = [(name.replace("_", " "), getattr(container, name)) for name in names]
    table((container.name, ""), [*rows, ("lease renewed", f"{span(container.lease_age_seconds)} ago")])
    placed = container.placement
    since = "" if placed is None else f", placed {cell(placed.at)}"
    loads = [(name, *_load(container, name)) for name in _dimensions([container])]
    table(("dimension", "load", "usable", "deviation", "capacity"), loads, title=f"load{since}")


def _show_tasks(container: str, tasks: Sequence[ContainerTaskView]) -> None:
    """What runs here, and the first line of each error."""
    rows = [(task.task, _state_here(container, task), task.crashes, *figures_of(task)) for task in tasks]
    table(("task", "state", "crashes", *FIGURES), rows, title="tasks")
    for text, names in by_error(tasks).items():
        say(f"{first_few(names)}: {text.splitlines()[0]}")
    if tasks:
        say("`penstock why JOB` says what is wrong with a job; a task's name is JOB/INDEX")


def _state_here(container: str, task: ContainerTaskView) -> str:
    """With where it goes, and whether its job has it no longer."""
    if not task.expected:
        return f"{state_of(task)}, not expected"
    return state_of(task) if task.owner in (container, None) else f"{state_of(task)}, moves to {task.owner}"


def _dimensions(found: Iterable[ContainerView]) -> list[str]:
    """Every dimension that a container offers, or has a load in."""
    names: dict[str, None] = {}
    for container in found:
        loads = {} if container.placement is None else container.placement.load
        names |= dict.fromkeys([*container.capacity, *loads])
    return list(names)


def _row(container: ContainerView, dimensions: Iterable[str]) -> tuple[str, ...]:
    labels = ", ".join(f"{key}={value}" for key, value in sorted(container.labels.items()))
    region = f"{container.region}\n{labels}" if labels else container.region
    shares = [_share(container, name) for name in dimensions]
    counts = (str(container.shards), str(container.tasks))
    return (container.name, _state(container), region, *shares, *counts, span(container.lease_age_seconds))


def _state(container: ContainerView) -> str:
    """`live`, or `live, draining, in 5m: new disk` when it takes no shards."""
    if container.availability == OPEN:
        return container.state
    limit = "" if container.drain_until is None else f", {cell(container.drain_until)}"
    reason = f": {container.availability_reason}" if container.availability_reason else ""
    return f"{container.state}, {container.availability}{limit}{reason}"


def _share(container: ContainerView, dimension: str) -> str:
    """`3.2 of 8.0 (+4%)`: of the usable amount, or of the capacity while the usable amount is unknown."""
    load, usable, deviation, capacity = _load(container, dimension)
    offered = capacity if usable == _UNKNOWN else usable
    return f"{load} of {offered}" + ("" if deviation == _UNKNOWN else f" ({deviation})")


def _load(container: ContainerView, dimension: str) -> tuple[str, str, str, str]:
    placed = container.placement
    load, usable, deviation = ({}, {}, {}) if placed is None else (placed.load, placed.usable, placed.deviation)
    amounts = [_amount(dimension, of.get(dimension)) for of in (load, usable, container.capacity)]
    share = deviation.get(dimension)
    return amounts[0], amounts[1], _UNKNOWN if share is None else f"{share:+.0%}", amounts[2]


def _amount(dimension: str, value: float | None) -> str:
    """Bytes in a fitting unit. A missing value is `unknown`, never zero."""
    if value is None:
        return _UNKNOWN
    if "bytes" not in dimension:
        return f"{value:,.1f}"
    power = 0
    while abs(value) >= 1024 and power < len(_BYTE_UNITS) - 1:
        value, power = value / 1024, power + 1
    return f"{value:,.1f} {_BYTE_UNITS[power]}"
