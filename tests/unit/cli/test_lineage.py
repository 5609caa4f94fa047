"""The graph around a job as text."""

from __future__ import annotations

from penstock.cli.lineage import lines
from penstock.model.states import Health, JobState
from penstock.wire.lineage import Lineage, LineageEdge, LineageJob, Use


def job(name: str, distance: int, health: Health, **known: float | str) -> LineageJob:
    return LineageJob.model_validate(
        {
            "job": name,
            "distance": distance,
            "health": health,
            "owner": "ann",
            "state": JobState.SYNCED,
            "revision": 1,
            "running_revision": 1,
            "generation": 1,
            "restarts": 0,
            "converged": True,
            **known,
        }
    )


def edge(job: str, use: Use, dataset: str) -> LineageEdge:
    return LineageEdge(job=job, use=use, dataset=dataset)


FOUND = Lineage(
    job="count",
    depth=3,
    complete=False,
    jobs=[
        job("clean", -1, Health.LAGGING, lag_seconds=300.0, rows_per_second=1234.5, reason="task 0 lags"),
        job("count", 0, Health.HEALTHY, lag_seconds=2.0, rows_per_second=900.0),
        job("keep-all", 1, Health.UNKNOWN),
    ],
    datasets=[],
    edges=[
        edge("clean", Use.READS, "raw"),
        edge("clean", Use.WRITES, "rows"),
        edge("count", Use.READS, "rows"),
        edge("count", Use.WRITES, "counts"),
        edge("count", Use.DEAD_LETTERS, "bad"),
        edge("keep-all", Use.READS, "bad"),
        edge("keep-all", Use.READS, "counts"),
        edge("keep-all", Use.WRITES, "/out"),
    ],
)


def test_upstream_is_above_and_downstream_below_with_what_is_known_of_each() -> None:
    assert [line for line, _ in lines(FOUND)] == [
        "upstream, 1 job away",
        "  clean     lagging      lag 5m        1,234 rows/s",
        "            raw -> rows",
        "            task 0 lags",
        "this job",
        "  count     healthy      lag 2s        900 rows/s",
        "            rows -> counts; malformed records -> bad",
        "downstream, 1 job away",
        "  keep-all  unknown      lag unknown   unknown rows/s",
        "            bad, counts -> /out",
        "only the 3 nearest jobs are shown; there are more",
    ]


def test_an_upstream_job_of_which_only_malformed_records_come_writes_elsewhere() -> None:
    edges = [edge("clean", Use.READS, "raw"), edge("clean", Use.DEAD_LETTERS, "bad")]
    said = [line.strip() for line, _ in lines(FOUND.model_copy(update={"edges": edges}))]
    assert "raw -> elsewhere; malformed records -> bad" in said
