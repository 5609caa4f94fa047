"""What `penstock top` shows: its order, its filter, its page, and what each key changes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from penstock.cli.output import counted
from penstock.model.health import Health
from penstock.wire.jobs import JobSummary

HELP = "h health, l lag, b backlog, t throughput, n name, r reverse, u only unhealthy, space next page, q quit"
_GRAVEST = (
    Health.CRASHING,
    Health.QUARANTINED,
    Health.HELD,
    Health.LAGGING,
    Health.UNKNOWN,
    Health.STARTING,
    Health.STOPPED,
    Health.HEALTHY,
)
_WELL = (Health.HEALTHY, Health.STARTING, Health.STOPPED)


class Order(StrEnum):
    """By what the rows are sorted."""

    HEALTH = "health"
    LAG = "lag"
    BACKLOG = "backlog"
    RATE = "rate"
    NAME = "name"


_KEYS = {"h": Order.HEALTH, "l": Order.LAG, "b": Order.BACKLOG, "t": Order.RATE, "n": Order.NAME}


@dataclass(frozen=True, slots=True)
class View:
    """The order, whether it is turned round, whether only jobs that are not well are shown, and the page from 0."""

    order: Order = Order.HEALTH
    reverse: bool = False
    only_unwell: bool = False
    page: int = 0


def pressed(view: View, key: str) -> View | None:
    """The view after a key; None: quit. Other keys change nothing."""
    if key in _KEYS:
        return replace(view, order=_KEYS[key], reverse=False, page=0)
    match key:
        case "q" | "\x03" | "\x04":
            return None
        case "r":
            return replace(view, reverse=not view.reverse, page=0)
        case "u":
            return replace(view, only_unwell=not view.only_unwell, page=0)
        case " ":
            return replace(view, page=view.page + 1)
    return view


def matching(jobs: Sequence[JobSummary], view: View) -> list[JobSummary]:
    """All jobs of the view, in its order: the gravest or the greatest first. What is unknown comes last."""
    wanted = [job for job in jobs if not view.only_unwell or job.health not in _WELL]
    ordered = sorted(wanted, key=lambda job: job.job)
    if view.order is Order.NAME:
        return ordered[::-1] if view.reverse else ordered
    known = [job for job in ordered if _value(job, view.order) is not None]
    unknown = [job for job in ordered if _value(job, view.order) is None]
    return [*sorted(known, key=lambda job: _value(job, view.order), reverse=not view.reverse), *unknown]


def shown(matched: Sequence[JobSummary], view: View, rows: int) -> tuple[list[JobSummary], int]:
    """The jobs of the present page, and how many pages there are. After the last page comes the first."""
    pages = max(1, -(-len(matched) // rows))
    first = view.page % pages * rows
    return list(matched[first : first + rows]), pages


def title(jobs: Sequence[JobSummary], view: View, pages: int) -> str:
    """How many jobs there are, how many are not well, and what is shown of them."""
    unwell = sum(job.health not in _WELL for job in jobs)
    only = ", only those" if view.only_unwell else ""
    turned = ", reversed" if view.reverse else ""
    page = f"; page {view.page % pages + 1} of {pages}" if pages > 1 else ""
    return f"{counted(len(jobs), 'job')}, {unwell} not well{only}; by {view.order}{turned}{page}"


def _value(job: JobSummary, order: Order) -> Any:
    match order:
        case Order.LAG:
            return job.lag_seconds
        case Order.BACKLOG:
            return job.backlog_records
        case Order.RATE:
            return job.rows_per_second
    lag = -1.0 if job.lag_seconds is None else job.lag_seconds
    return -_GRAVEST.index(job.health), lag
