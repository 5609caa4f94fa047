"""`penstock lineage`: the jobs upstream and downstream of a job, with the topics between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Annotated

import typer

from penstock.cli.arguments import AsJson, Job
from penstock.cli.connection import client
from penstock.cli.output import figure, say, show_json, span
from penstock.wire.lineage import DEFAULT_DEPTH, MOST_DEPTH, Lineage, LineageJob, Use

_INDENT = "  "


def lineage(
    job: Job,
    depth: Annotated[
        int, typer.Option(min=1, max=MOST_DEPTH, help="how many jobs away the graph ends")
    ] = DEFAULT_DEPTH,
    as_json: AsJson = False,
) -> None:
    """Show the jobs upstream and downstream of a job, with the topics between them: health, lag and rate of each."""
    found = client().lineage(job, depth=depth)
    if as_json:
        return show_json(found)
    for line, style in lines(found):
        say(line, style=style)
    return None


def lines(found: Lineage) -> Iterator[tuple[str, str]]:
    """Each line with its style: layers of jobs from the farthest upstream to the farthest downstream. Pure."""
    width = max(len(job.job) for job in found.jobs)
    for distance, layer in groupby(found.jobs, lambda job: job.distance):
        yield _title(distance), "bold"
        for job in layer:
            yield f"{_INDENT}{job.job:<{width}}  {_state(job)}", ""
            yield f"{_INDENT}{' ' * width}  {_way(job.job, found)}", "dim"
            if job.reason:
                yield f"{_INDENT}{' ' * width}  {job.reason}", ""
    if not found.complete:
        yield f"only the {len(found.jobs)} nearest jobs are shown; there are more", ""


def _title(distance: int) -> str:
    if distance == 0:
        return "this job"
    count, direction = abs(distance), "upstream" if distance < 0 else "downstream"
    return f"{direction}, {count} job{'s' if count > 1 else ''} away"


def _state(job: LineageJob) -> str:
    lag = "unknown" if job.lag_seconds is None else span(job.lag_seconds)
    return f"{job.health:<11}  lag {lag:<8}  {figure(job.rows_per_second)} rows/s"


def _way(job: str, found: Lineage) -> str:
    """`orders, clicks -> joined; malformed records -> bad`."""
    read, written, bad = (_names(job, found, use) for use in (Use.READS, Use.WRITES, Use.DEAD_LETTERS))
    malformed = f"; malformed records -> {', '.join(bad)}" if bad else ""
    return f"{', '.join(read)} -> {', '.join(written) or 'elsewhere'}{malformed}"


def _names(job: str, found: Lineage, use: Use) -> Sequence[str]:
    return [edge.dataset for edge in found.edges if edge.job == job and edge.use is use]
