"""`penstock demo`: the stack, the feed, the scenario, the comparison; exit code 0 only when every job is exact."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from rich.console import Console

from penstock.control.errors import RetryableError, TerminalError
from penstock.control.process import wait_until
from penstock.local.demo import check
from penstock.local.demo.data import write_planes
from penstock.local.demo.feed import Feed, make_topics
from penstock.local.demo.scenario import INPUTS, JOBS, Scenario, hourly_path, planes_path
from penstock.local.demo.view import View
from penstock.local.demo.watch import caught_up, shown_job, topic_ends
from penstock.local.stack import LocalStack
from penstock.wire.job_client import JobClient

_DRAIN_S = 300.0
_REFRESH_S = 0.5
_MARKER = "penstock-demo"


def run(console: Console, data_dir: Path, *, keep: bool, feed_seconds: float, picture: Path | None = None) -> int:
    """Runs the demo in a fresh `data_dir`; 0 when all jobs are exact, else 1. `keep` leaves it up until Ctrl-C.

    `picture` is where the final display is saved as SVG. Raises TerminalError when `data_dir` is somebody else's.
    """
    definitions()
    empty(data_dir)
    with View(console, live=console.is_terminal) as view:
        stack = LocalStack(data_dir, on_event=lambda text: view.event(text, "process"))
        with stack:
            comparisons = _play(stack, view, feed_seconds)
            for comparison in comparisons:
                view.event(comparison.line(), "ok" if comparison.exact else "kill")
            exact = sum(comparison.exact for comparison in comparisons)
            view.event(f"exact: {exact} of {len(comparisons)} jobs", "ok" if exact == len(comparisons) else "kill")
            if picture is not None:
                picture.write_text(view.picture())
            if keep:
                view.event(f"the stack stays up at {stack.url}; Ctrl-C ends it", "ok")
                signal.pause()
    for comparison in comparisons:
        console.print(comparison.line())
        console.print(*comparison.examples, sep="\n", end="\n" if comparison.examples else "")
    console.print(f"exact: {exact} of {len(comparisons)} jobs")
    return 0 if exact == len(comparisons) else 1


def empty(data_dir: Path) -> None:
    """Makes an empty folder for a demo, in place of an earlier one. Raises TerminalError when it holds other things."""
    marker = data_dir / _MARKER
    if data_dir.exists() and any(data_dir.iterdir()) and not marker.exists():
        raise TerminalError(f"{data_dir} contains other files than a demo's: name another folder")
    shutil.rmtree(data_dir, ignore_errors=True)
    data_dir.mkdir(parents=True)
    marker.touch()


def definitions() -> Path:
    """The folder of the demo's jobs. Raises TerminalError where Penstock does not run from a checkout."""
    folder = Path(__file__).parents[4] / "deploy" / "demo"
    if not folder.is_dir():
        raise TerminalError("the demo's jobs are in deploy/demo of a checkout of Penstock, which is not here")
    return folder


def _play(stack: LocalStack, view: View, feed_seconds: float) -> tuple[check.Comparison, ...]:
    make_topics(stack.plan.kafka_bootstrap)
    write_planes(planes_path(stack))
    scenario = Scenario(stack, view, definitions())
    scenario.create_jobs()
    feed = Feed(stack.plan.kafka_bootstrap, feed_seconds)
    with stack.client() as client:
        _wait_converged(client, view)
        feed.start()
        try:
            _stream(client, view, feed, scenario)
            return _finish(stack, client, view, feed)
        finally:
            feed.stop()


def _wait_converged(client: JobClient, view: View) -> None:
    wait_until(lambda: all(client.get_job(job).converged for job in JOBS), _DRAIN_S, "the jobs to converge", poll_s=0.2)
    view.event(f"converged: {', '.join(JOBS)} run on Spark", "ok")


def _stream(client: JobClient, view: View, feed: Feed, scenario: Scenario) -> None:
    steps = list(scenario.steps())
    while not feed.fed().done or steps:
        if steps and scenario.is_due(steps[0], feed.fed().share):
            steps.pop(0).act()
        _refresh(client, view, feed)
        time.sleep(_REFRESH_S)


def _refresh(client: JobClient, view: View, feed: Feed) -> None:
    """Shows the newest figures; while the Job Service cannot answer, the old ones stay."""
    try:
        jobs = [shown_job(client, job) for job in JOBS]
    except RetryableError as error:
        view.event(f"no figures: {error.detail}")
    else:
        view.update(feed.fed(), jobs)


def _all_converged(client: JobClient, view: View, feed: Feed) -> bool:
    _refresh(client, view, feed)
    return all(client.get_job(job).converged for job in JOBS)


def _finish(stack: LocalStack, client: JobClient, view: View, feed: Feed) -> tuple[check.Comparison, ...]:
    """Waits until all is read, then until the results are exact or the time for that is over."""
    view.event("all flights are in Kafka; the jobs finish reading")
    wait_until(lambda: _all_converged(client, view, feed), _DRAIN_S, "the jobs to converge", poll_s=_REFRESH_S)
    feed.close()
    for job in JOBS:
        _wait_read(stack, client, view, feed, job)
    view.event("everything is read; comparing each result with DuckDB on the same input")
    return tuple(_settled(partial(_compare, stack, job)) for job in JOBS)


def _wait_read(stack: LocalStack, client: JobClient, view: View, feed: Feed, job: str) -> None:
    """Until the job has read its topic to the end, which stands still once all jobs before it in the chain are read."""
    ends = topic_ends(stack.plan.kafka_bootstrap, INPUTS[job])

    def is_read() -> bool:
        _refresh(client, view, feed)
        return caught_up(client, job, INPUTS[job], ends)

    wait_until(is_read, _DRAIN_S, f"{job} to read everything", poll_s=_REFRESH_S)


def _settled(compare: Callable[[], check.Comparison]) -> check.Comparison:
    """The last batch, which closes the windows, may still be under way: look again for a while."""
    with suppress(TimeoutError):
        wait_until(lambda: compare().exact, _DRAIN_S / 4, "exact results", poll_s=1.0)
    return compare()


def _compare(stack: LocalStack, job: str) -> check.Comparison:
    readers = {
        "enrich": lambda: check.read_enriched(stack.plan.kafka_bootstrap),
        "hourly": lambda: check.read_hourly(hourly_path(stack)),
        "delays": lambda: check.read_delays(stack.plan.connections["demo"]),
    }
    return check.compare(job, readers[job]())
