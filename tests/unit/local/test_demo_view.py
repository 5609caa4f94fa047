"""What the demo shows."""

from __future__ import annotations

import io
import xml.etree.ElementTree

from rich.console import Console

from penstock.local.demo.feed import Fed
from penstock.local.demo.view import ShownJob, View
from penstock.wire.jobs import JobSummary
from penstock.wire.overview import TaskView


def _job(
    job: str,
    *,
    backlog: float | None = 0.0,
    rate: float | None = None,
    where: tuple[str, ...] = ("task_manager_1",),
    generation: int | None = 1,
    converged: bool = True,
) -> ShownJob:
    """A job with a running task on each container of `where`; the figures are those of the first."""
    tasks = [
        TaskView(
            **{"task": f"{job}/{index}", "index": index, "shard": 0, "expected": True, "owner": container},
            **{"state": "running", "container": container, "generation": generation},
            progress={
                "backlog_records": backlog if index == 0 else 0,
                "input_rows_per_second": rate if index == 0 else 0,
            },
        )
        for index, container in enumerate(where)
    ]
    return ShownJob(JobSummary.model_construct(job=job, state="synced", converged=converged, revision=3), tasks)


def _shown(view: View) -> str:
    console = Console(record=True, width=110, file=io.StringIO())
    console.print(view.render())
    return console.export_text()


def _view() -> tuple[View, io.StringIO]:
    said = io.StringIO()
    return View(Console(file=said, width=110), live=False), said


def test_what_nobody_knows_is_unknown_and_zero_is_zero() -> None:
    view, _ = _view()
    view.update(Fed(1000, 336_776, False), [_job("enrich", backlog=None, rate=12_345.6), _job("hourly")])
    shown = _shown(view)
    enrich, hourly = (next(line for line in shown.splitlines() if job in line) for job in ("enrich", "hourly"))
    assert "unknown" in enrich
    assert "12,346" in enrich
    assert hourly.count("unknown") == 1
    assert " 0 " in hourly
    assert "1,000 of 336,776 flights in Kafka" in shown


def test_tasks_are_counted_by_container() -> None:
    view, _ = _view()
    view.update(Fed(1, 2, False), [_job("enrich", where=("task_manager_2", "task_manager_1", "task_manager_2"))])
    assert "task_manager_1 x1, task_manager_2 x2" in _shown(view)
    assert "3/3" in _shown(view)


def test_a_job_that_runs_in_a_new_generation_is_told_of_once() -> None:
    view, said = _view()
    many = ("task_manager_1",) * 6
    first, second = _job("hourly"), _job("hourly", where=many, generation=2)
    unfinished, unknown = _job("hourly", where=many, generation=2, converged=False), _job("hourly", generation=None)
    for job in (first, unfinished, unknown, second, second):
        view.update(Fed(1, 2, False), [job])
    assert said.getvalue().count("hourly runs") == 1
    assert "hourly runs 6 tasks as generation 2" in said.getvalue()


def test_without_a_terminal_events_are_lines_that_hold_no_markup() -> None:
    view, said = _view()
    with view:
        view.event("kill -9 [red]now[/]", "kill")
    assert "kill -9 [red]now[/]" in said.getvalue()


def test_only_the_newest_events_are_shown() -> None:
    view, _ = _view()
    for number in range(100):
        view.event(f"event {number} of many")
    shown = _shown(view)
    assert "event 99 of many" in shown
    assert "event 5 of many" not in shown


def test_a_live_display_is_drawn_on_its_terminal() -> None:
    said = io.StringIO()
    with View(Console(file=said, width=110, force_terminal=True), live=True) as view:
        view.event("the jobs converged", "ok")
        view.update(Fed(2, 2, True), [_job("delays")])
    assert "the jobs converged" in said.getvalue()
    assert "2 of 2 flights in Kafka" in said.getvalue()


def test_the_picture_is_the_present_display_and_fetches_nothing() -> None:
    """Nothing of it appears on the console, whose own output is not recorded."""
    view, said = _view()
    view.event("exact: 3 of 3 jobs", "ok")
    view.update(Fed(336_776, 336_776, True), [_job("enrich", where=("task_manager_1",))])
    before = said.getvalue()
    picture = view.picture()
    assert said.getvalue() == before
    assert xml.etree.ElementTree.fromstring(picture).tag.endswith("svg")
    plain = picture.replace("&#160;", " ")
    for part in ("penstock demo", "exact: 3 of 3 jobs", "task_manager_1 x1", "unknown"):
        assert part in plain
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "").replace("https://www.textualize.io", "")
