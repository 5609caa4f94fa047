"""`penstock demo`: the stack, the feed, the scenario, the comparison; exit code 0 only when every job is exact."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Mapping
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
from penstock.local.demo.view import ShownJob, View
from penstock.local.services import PORT_BASE
from penstock.local.stack import LocalStack
from penstock.wire.job_client import JobClient

_DRAIN_S = 300.0
_REFRESH_S = 0.5
_MARKER = "penstock-demo"


def run(
    console: Console,
    data_dir: Path,
    *,
    keep: bool,
    feed_seconds: float,
    picture: Path | None = None,
    port_base: int = PORT_BASE,
) -> int:
    """Runs the demo in a fresh `data_dir`; 0 when all jobs are exact, else 1. `keep` leaves it up until Ctrl-C.

    `picture` is where the final display is saved as SVG. Raises TerminalError when `data_dir` is somebody else's.
    """
    definitions()
    empty(data_dir)
    with View(console, live=console.is_terminal) as view:
        stack = LocalStack(
            data_dir, port_base=port_base, console=True, on_event=lambda text: view.event(text, "process")
        )
        with stack:
            view.event(f"console: {stack.console_url}, token in {stack.data_dir / 'admin.token'}", "ok")
            comparisons = _play(stack, view, feed_seconds)
            for comparison in comparisons:
                view.event(comparison.line(), "ok" if comparison.exact else "kill")
            exact = sum(comparison.exact for comparison in comparisons)
            view.event(f"exact: {exact} of {len(comparisons)} jobs", "ok" if exact == len(comparisons) else "kill")
            if picture is not None:
                picture.write_text(view.picture())
            if keep:
                view.event(
                    f"the stack stays up at {stack.url}, its console at {stack.console_url}; Ctrl-C ends it", "ok"
                )
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
        play = _Play(stack, client, view, feed)
        play.await_convergence()
        view.event(f"converged: {', '.join(JOBS)} run on Spark", "ok")
        feed.start()
        try:
            play.stream(scenario)
            return play.finish()
        finally:
            feed.stop()


class _Play:
    """What the demo does while the flights stream, and after."""

    def __init__(self, stack: LocalStack, client: JobClient, view: View, feed: Feed) -> None:
        self._stack = stack
        self._client = client
        self._view = view
        self._feed = feed

    def await_convergence(self) -> None:
        wait_until(self._refresh, _DRAIN_S, "the jobs to converge", poll_s=_REFRESH_S)

    def stream(self, scenario: Scenario) -> None:
        """Until all flights are in Kafka and all steps of the scenario are done."""
        steps = list(scenario.steps())
        while not self._feed.fed().done or steps:
            if steps and scenario.is_due(steps[0], self._feed.fed().share):
                steps.pop(0).act()
            self._refresh()
            time.sleep(_REFRESH_S)

    def finish(self) -> tuple[check.Comparison, ...]:
        """Waits until all is read, then until the results are exact or the time for that is over."""
        self._view.event("all flights are in Kafka; the jobs finish reading")
        self.await_convergence()
        self._feed.close()
        for job in JOBS:
            # The end of its topic stands still once all jobs before it in the chain are read.
            ends = check.topic_ends(self._stack.plan.kafka_bootstrap, INPUTS[job])
            wait_until(partial(self._has_read, job, ends), _DRAIN_S, f"{job} to read everything", poll_s=_REFRESH_S)
        self._view.event("everything is read; comparing each result with DuckDB on the same input")
        return tuple(self._settled(job) for job in JOBS)

    def _refresh(self) -> bool:
        """Shows the newest figures; while the Job Service cannot answer, the old ones stay. True if all converged."""
        try:
            jobs = [ShownJob(self._client.get_job(job), self._client.tasks(job).tasks) for job in JOBS]
        except RetryableError as error:
            self._view.event(f"no figures: {error.detail}")
            return False
        self._view.update(self._feed.fed(), jobs)
        return all(shown.job.converged for shown in jobs)

    def _has_read(self, job: str, ends: Mapping[int, int]) -> bool:
        """Whether the tasks of a job have committed every record of its topic up to `ends`."""
        self._refresh()
        offsets: dict[int, int] = {}
        for task in self._client.tasks(job).tasks:
            read = (task.progress or {}).get("offsets", {}).get(INPUTS[job], {})
            offsets |= {int(partition): int(offset) for partition, offset in read.items()}
        return all(offsets.get(partition, 0) >= end for partition, end in ends.items())

    def _settled(self, job: str) -> check.Comparison:
        """The last batch, which closes the windows, may still be under way: look again for a while."""
        with suppress(TimeoutError):
            wait_until(lambda: self._compare(job).exact, _DRAIN_S / 4, "exact results", poll_s=1.0)
        return self._compare(job)

    def _compare(self, job: str) -> check.Comparison:
        readers = {
            "enrich": lambda: check.read_enriched(self._stack.plan.kafka_bootstrap),
            "hourly": lambda: check.read_hourly(hourly_path(self._stack)),
            "delays": lambda: check.read_delays(self._stack.plan.connections["demo"]),
        }
        return check.compare(job, readers[job]())
