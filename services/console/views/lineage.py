"""The graph of jobs and topics around a job as a picture, and as rows of a table. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from penstock.wire.lineage import Dataset, DatasetKind, Lineage, LineageEdge, LineageJob, Use
from services.console.views.graphs import Box, Layout, Point, Size, layout
from services.console.views.words import number, seconds

DEPTHS = (1, 2, 3, 5, 10)
"""How many jobs away the graph may end."""
_JOB, _DATASET = Size(204.0, 62.0), Size(154.0, 30.0)
_LONGEST_JOB, _LONGEST_DATASET = 22, 20


@dataclass(frozen=True, slots=True)
class JobBox:
    """A job in the picture. `name` may be cut short. `told`: all that the box shows, as one text."""

    job: LineageJob
    box: Box
    name: str
    figures: str
    told: str


@dataclass(frozen=True, slots=True)
class DatasetBox:
    """A topic, folder or table in the picture. `name` may be cut short."""

    dataset: Dataset
    box: Box
    name: str


@dataclass(frozen=True, slots=True)
class Arrow:
    """A way that rows go, as the path of an SVG. `style`: whether they are malformed records."""

    path: str
    style: str


@dataclass(frozen=True, slots=True)
class Row:
    """A job in the table, with what it reads and writes."""

    job: LineageJob
    where: str
    reads: Sequence[str]
    writes: Sequence[str]
    dead_letters: Sequence[str]


@dataclass(frozen=True, slots=True)
class Picture:
    """The graph as it is drawn, `width` by `height` pixels."""

    width: float
    height: float
    jobs: Sequence[JobBox]
    datasets: Sequence[DatasetBox]
    arrows: Sequence[Arrow]


def picture(found: Lineage) -> Picture:
    """The graph with its boxes and arrows: rows go from left to right, except back in a loop."""
    jobs = {_key(job.job): job for job in found.jobs}
    datasets = {_key(dataset.name, dataset.kind): dataset for dataset in found.datasets}
    sizes = dict.fromkeys(jobs, _JOB) | dict.fromkeys(datasets, _DATASET)
    kinds = {dataset.name: dataset.kind for dataset in found.datasets}
    drawn = layout(sizes, [_ends(edge, kinds[edge.dataset]) for edge in found.edges])
    return Picture(
        width=drawn.width,
        height=drawn.height,
        jobs=[_job_box(job, drawn.boxes[key]) for key, job in jobs.items()],
        datasets=[_dataset_box(each, drawn.boxes[key]) for key, each in datasets.items()],
        arrows=list(_arrows(found.edges, drawn)),
    )


def rows(found: Lineage) -> list[Row]:
    """The same as a table, from the farthest upstream to the farthest downstream."""
    uses: dict[tuple[str, Use], list[str]] = {}
    for edge in found.edges:
        uses.setdefault((edge.job, edge.use), []).append(edge.dataset)
    return [Row(job, _where(job.distance), *(uses.get((job.job, use), ()) for use in Use)) for job in found.jobs]


def depth_of(text: str | None, otherwise: int) -> int:
    """The depth that the address of a page asks for, if it is one of `DEPTHS`."""
    return int(text) if text in {str(depth) for depth in DEPTHS} else otherwise


def curve(way: Sequence[Point]) -> str:
    """A way as the path of an SVG: it leaves and reaches each point horizontally."""
    steps = [f"M{way[0].x:.1f} {way[0].y:.1f}"]
    for start, end in pairwise(way):
        middle = (start.x + end.x) / 2
        steps.append(f"C{middle:.1f} {start.y:.1f} {middle:.1f} {end.y:.1f} {end.x:.1f} {end.y:.1f}")
    return " ".join(steps)


def _key(name: str, kind: DatasetKind | None = None) -> str:
    return f"{kind or 'job'} {name}"


def _ends(edge: LineageEdge, kind: DatasetKind) -> tuple[str, str]:
    """From where to where rows go."""
    job, dataset = _key(edge.job), _key(edge.dataset, kind)
    return (dataset, job) if edge.use is Use.READS else (job, dataset)


def _arrows(edges: Iterable[LineageEdge], drawn: Layout) -> Iterable[Arrow]:
    for edge, way in zip(edges, drawn.ways, strict=True):
        yield Arrow(curve(way), "is-malformed" if edge.use is Use.DEAD_LETTERS else "")


def _job_box(job: LineageJob, box: Box) -> JobBox:
    figures = f"lag {seconds(job.lag_seconds)} · {number(job.rows_per_second)} rows/s"
    told = f"{job.job}, {_where(job.distance)}: {job.health}, {figures}"
    name = job.job if len(job.job) <= _LONGEST_JOB else f"{job.job[: _LONGEST_JOB - 1]}…"
    return JobBox(job, box, name, figures, told)


def _dataset_box(dataset: Dataset, box: Box) -> DatasetBox:
    """Of a long path the end is shown, which says more than its beginning."""
    name = dataset.name if len(dataset.name) <= _LONGEST_DATASET else f"…{dataset.name[1 - _LONGEST_DATASET :]}"
    return DatasetBox(dataset, box, name)


def _where(distance: int) -> str:
    if distance == 0:
        return "this job"
    return f"{abs(distance)} {'upstream' if distance < 0 else 'downstream'}"
