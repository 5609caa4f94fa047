"""The answer of `GET /v1/jobs/{job}/lineage`: the graph of jobs and topics around a job."""

from __future__ import annotations

from enum import StrEnum

from penstock.wire.job_views import JobSummary, View

DEFAULT_DEPTH, MOST_DEPTH = 3, 10
"""How many jobs away from the job the graph ends."""


class DatasetKind(StrEnum):
    """What a dataset is. A folder is also a Delta table. A pattern stands for all topics that it matches."""

    TOPIC = "topic"
    PATTERN = "pattern"
    FOLDER = "folder"
    TABLE = "table"


class Use(StrEnum):
    """What a job does with a dataset. `dead_letters`: its malformed records go there."""

    READS = "reads"
    WRITES = "writes"
    DEAD_LETTERS = "dead_letters"


class Dataset(View):
    """A topic, on a further Kafka cluster as `orders@eu`; a pattern of topics by its text; a folder by its path; or a
    Postgres table as `postgres:<connection>/<table>`."""

    name: str
    kind: DatasetKind


class LineageJob(JobSummary):
    """A job of the graph. `distance`: how many jobs away it is: below 0 upstream, above 0 downstream. A job that is
    both has the smaller distance."""

    distance: int


class LineageEdge(View):
    """A job uses a dataset."""

    job: str
    dataset: str
    use: Use


class Lineage(View):
    """The jobs from which the rows of `job` come, and to which they go, as its newest configuration and theirs say.

    `jobs`: the nearest upstream ones last, then the job, then those downstream. `datasets`: what the job and those
    upstream read, what the job and those downstream write; a job has an edge to the pattern that it reads, and to each
    of these topics that it matches. A topic of malformed records is there if some job reads it.
    `complete`: false when more than `jobs` are within `depth`.
    """

    job: str
    depth: int
    complete: bool
    jobs: list[LineageJob]
    datasets: list[Dataset]
    edges: list[LineageEdge]
