"""What the demo shows while it runs: the feed, what runs where, lag and rates, and what was done to it."""

from __future__ import annotations

import os
import re
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from penstock.local.demo.feed import Fed
from penstock.wire.jobs import JobSummary
from penstock.wire.overview import TaskView, total

_EVENTS_SHOWN = 12
_EVENTS_IN_PICTURE = 26
_PICTURE_COLUMNS = 110
_FETCHED_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_STYLES = {"kill": "bold red", "change": "bold cyan", "ok": "green", "process": "yellow", "info": "white"}


class ShownJob(NamedTuple):
    """A job and its tasks."""

    job: JobSummary
    tasks: Sequence[TaskView]

    @property
    def expected(self) -> list[TaskView]:
        return [task for task in self.tasks if task.expected]

    @property
    def running(self) -> list[TaskView]:
        return [task for task in self.expected if task.state == "running"]


class View:
    """A live display on a terminal, plain lines elsewhere. `event` may be called from any thread."""

    def __init__(self, console: Console, *, live: bool) -> None:
        self._console = console
        self._started = time.monotonic()
        self._events: deque[tuple[float, str, str]] = deque(maxlen=_EVENTS_IN_PICTURE)
        self._jobs: tuple[ShownJob, ...] = ()
        self._fed = Fed(0, 1, False)
        self._generations: dict[str, int] = {}
        self._live = Live(self.render(), console=console, refresh_per_second=4) if live else None

    def __enter__(self) -> View:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def event(self, text: str, kind: str = "info") -> None:
        """Adds a line to the display."""
        at = time.monotonic() - self._started
        self._events.append((at, kind, text))
        if self._live is None:
            self._console.print(Text(f"{at:6.1f} s  {text}", style=_STYLES[kind]))
        else:
            self._live.update(self.render())

    def update(self, fed: Fed, jobs: Iterable[ShownJob]) -> None:
        """Shows the newest figures, and tells of jobs that run in a new generation."""
        self._fed, self._jobs = fed, tuple(jobs)
        for shown in self._jobs:
            self._tell_generation(shown.job, shown.running)
        if self._live is not None:
            self._live.update(self.render())

    def _tell_generation(self, job: JobSummary, running: Sequence[TaskView]) -> None:
        known = [task.generation for task in running if task.generation is not None]
        if not job.converged or not known:
            return
        before, self._generations[job.job] = self._generations.get(job.job), max(known)
        if before is not None and max(known) > before:
            self.event(f"{job.job} runs {len(running)} tasks as generation {max(known)}", "ok")

    def picture(self) -> str:
        """The present display as SVG, from a console of its own; it fetches nothing when it is shown."""
        with open(os.devnull, "w") as nowhere:
            console = Console(record=True, width=_PICTURE_COLUMNS, file=nowhere)
            console.print(self.render(_EVENTS_IN_PICTURE))
        return _FETCHED_FONT.sub("", console.export_svg(title="penstock demo"))

    def render(self, events: int = _EVENTS_SHOWN) -> RenderableType:
        """The whole display as it is now, with the newest `events` events."""
        feed = Table.grid(padding=(0, 1))
        sent = f"{self._fed.sent:,} of {self._fed.total:,} flights in Kafka"
        feed.add_row(ProgressBar(total=self._fed.total, completed=self._fed.sent, width=40), sent)
        newest = list(self._events)[-events:]
        lines = Text("\n").join(Text(f"{at:6.1f} s  {text}", style=_STYLES[kind]) for at, kind, text in newest)
        return Group(feed, _job_table(self._jobs), Panel(lines, title="what happens", title_align="left"))


def _job_table(jobs: Iterable[ShownJob]) -> Table:
    table = Table(expand=True)
    for heading in ("job", "state", "revision", "tasks", "where", "backlog", "rows/s"):
        table.add_column(heading, justify="right" if heading in ("revision", "backlog", "rows/s") else "left")
    for shown in jobs:
        job, running = shown.job, shown.running
        state = Text(f"{job.state}{', converged' * job.converged}", style="green" if job.converged else "yellow")
        containers = Counter(task.container or "unknown" for task in running)
        where = ", ".join(f"{name} x{count}" for name, count in sorted(containers.items()))
        figures = [_number(total(shown.expected, name)) for name in ("backlog_records", "input_rows_per_second")]
        table.add_row(job.job, state, str(job.revision), f"{len(running)}/{len(shown.expected)}", where, *figures)
    return table


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}"
