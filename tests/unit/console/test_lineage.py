"""The graph around a job as a picture and as a table."""

from __future__ import annotations

import pytest

from penstock.wire.lineage import DEFAULT_DEPTH, Dataset, DatasetKind, LineageEdge, Use
from services.console.views.graphs import Point
from services.console.views.lineage import DEPTHS, curve, depth_of, picture, rows
from tests.unit.cli.test_lineage import FOUND

LONG = "a-name-of-a-job-that-is-far-too-long-for-a-box"
KINDS = {"raw": DatasetKind.TOPIC, "rows": DatasetKind.TOPIC, "counts": DatasetKind.TOPIC, "bad": DatasetKind.TOPIC}
FOUND = FOUND.model_copy(
    update={
        "datasets": [
            *(Dataset(name=name, kind=kind) for name, kind in KINDS.items()),
            Dataset(name="/out", kind=DatasetKind.FOLDER),
        ]
    }
)


def test_each_job_and_each_dataset_has_a_box_and_each_edge_an_arrow() -> None:
    found = picture(FOUND)
    assert [(each.name, each.figures) for each in found.jobs] == [
        ("clean", "lag 5 min · 1,234 rows/s"),
        ("count", "lag 2 s · 900 rows/s"),
        ("keep-all", "lag – · – rows/s"),
    ]
    assert [each.name for each in found.datasets] == [*KINDS, "/out"]
    assert len(found.arrows) == len(FOUND.edges)
    assert [arrow.style for arrow in found.arrows].count("is-malformed") == 1
    assert found.jobs[0].told == "clean, 1 upstream: lagging, lag 5 min · 1,234 rows/s"
    assert found.jobs[0].box.x < found.jobs[1].box.x < found.jobs[2].box.x


def test_a_long_name_is_cut_at_its_end_and_a_long_path_at_its_beginning() -> None:
    job = FOUND.jobs[1].model_copy(update={"job": LONG})
    path = Dataset(name="s3a://a-bucket-of-ours/tables/orders", kind=DatasetKind.FOLDER)
    edge = LineageEdge(job=LONG, dataset=path.name, use=Use.WRITES)
    found = picture(FOUND.model_copy(update={"jobs": [job], "datasets": [path], "edges": [edge]}))
    assert (found.jobs[0].name, found.jobs[0].told.partition(",")[0]) == ("a-name-of-a-job-that-…", LONG)
    assert found.datasets[0].name == "…-ours/tables/orders"


def test_a_row_has_what_its_job_reads_and_writes() -> None:
    clean, count, keep = rows(FOUND)
    assert (clean.where, clean.reads, clean.writes) == ("1 upstream", ["raw"], ["rows"])
    assert (count.where, count.writes, count.dead_letters) == ("this job", ["counts"], ["bad"])
    assert (keep.where, keep.reads, keep.dead_letters) == ("1 downstream", ["bad", "counts"], ())


@pytest.mark.parametrize(("asked", "depth"), [(None, 3), ("5", 5), ("4", 3), ("x", 3), ("-1", 3)])
def test_a_depth_that_is_no_choice_is_the_usual_one(asked: str | None, depth: int) -> None:
    assert DEFAULT_DEPTH in DEPTHS
    assert depth_of(asked, DEFAULT_DEPTH) == depth


def test_a_curve_passes_each_point() -> None:
    path = curve([Point(0, 0), Point(10, 20), Point(30, 20)])
    assert path == "M0.0 0.0 C5.0 0.0 5.0 20.0 10.0 20.0 C20.0 20.0 20.0 20.0 30.0 20.0"
