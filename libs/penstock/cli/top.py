"""`penstock top`: a live, sorted table of all jobs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import count
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from penstock.cli.connection import client
from penstock.cli.job_list import backlog_and_lag
from penstock.cli.keys import Wait, keys
from penstock.cli.output import measured, out, rich_table, say
from penstock.cli.top_view import HELP, Order, View, matching, pressed, shown, title
from penstock.control.errors import NotFound, RetryableError
from penstock.wire.job_client import JobClient
from penstock.wire.jobs import JobSummary

_HEADINGS = ("job", "health", "state", "revision", "tasks", "backlog", "lag s", "rows/s")
# The frame of the table and the lines around it.
_OTHER_LINES = 6
_ALL_ROWS = 1000


def top(
    every: Annotated[float, typer.Option(min=0.1, help="seconds between two updates")] = 2.0,
    updates: Annotated[
        int | None, typer.Option(min=1, help="end after this many updates; default: never, in a pipe one")
    ] = None,
    prefix: Annotated[str | None, typer.Option(help="only jobs whose names begin with this")] = None,
    sort: Annotated[
        Order, typer.Option(help="the gravest, or the greatest, comes first; names from a to z")
    ] = Order.HEALTH,
    reverse: Annotated[bool, typer.Option("--reverse", help="turn the order round")] = False,
    unhealthy: Annotated[bool, typer.Option("--unhealthy", help="only jobs that are not well")] = False,
) -> None:
    """Show a live table of all jobs, the least healthy first. Ctrl-C, or the key q, ends it.

    Keys: h, l, b, t and n sort by health, lag, backlog, throughput (`--sort rate`) and name; r turns the order round; u
    shows only jobs that are not well; the space bar shows the next page. A value that is unknown comes last.

    Without a terminal, as in a pipe, the table is printed once, or as often as --updates says.
    """
    screen = _Screen(client(), prefix, View(sort, reverse, unhealthy))
    screen.read()
    if not sys.stdout.isatty():
        return _print(screen, every, updates or 1)
    with suppress(KeyboardInterrupt), keys() as wait, Live(screen.drawn(), console=out, auto_refresh=False) as live:
        for number in count(2):
            if (updates is not None and number > updates) or not _pressed_until(every, wait, screen, live):
                return None
            screen.read_again()
            live.update(screen.drawn(), refresh=True)
    return None


def _print(screen: _Screen, every: float, times: int) -> None:
    out.print(screen.drawn())
    for _ in range(times - 1):
        time.sleep(every)
        screen.read_again()
        out.print(screen.drawn())


def _pressed_until(seconds: float, wait: Wait, screen: _Screen, live: Live) -> bool:
    """Lets keys change the view until the next update; False: quit."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        key = wait(left)
        if key and not screen.press(key):
            return False
        if key:
            live.update(screen.drawn(), refresh=True)
    return True


class _Screen:
    """The jobs as they were read last, and how they are shown."""

    def __init__(self, connection: JobClient, prefix: str | None, view: View) -> None:
        self._connection = connection
        self._prefix = prefix
        self._view = view
        self._jobs: list[JobSummary] = []

    def read(self) -> None:
        """Reads all jobs. Raises PenstockError."""
        self._jobs = list(self._connection.list_jobs(prefix=self._prefix))

    def read_again(self) -> None:
        """As `read`. While the service does not answer, the old figures stay and a line says so."""
        try:
            self.read()
        except RetryableError as error:
            say(f"no answer: {error.detail}", style="red")

    def press(self, key: str) -> bool:
        """Changes the view; False: quit."""
        changed = pressed(self._view, key)
        self._view = changed or self._view
        return changed is not None

    def drawn(self) -> RenderableType:
        """The present page of the table, below its title and above the keys."""
        rows = max(3, out.height - _OTHER_LINES) if sys.stdout.isatty() else _ALL_ROWS
        page, pages = shown(matching(self._jobs, self._view), self._view, rows)
        help_line = Text(HELP if sys.stdin.isatty() else "", style="dim")
        return Group(Text(title(self._jobs, self._view, pages)), rich_table(_HEADINGS, self._rows(page)), help_line)

    def _rows(self, page: Iterable[JobSummary]) -> Iterator[tuple[str, ...]]:
        for job in page:
            with suppress(NotFound):  # deleted since it was listed
                figures = (*backlog_and_lag(job), measured(job.rows_per_second))
                yield job.job, job.health, job.state, str(job.revision), self._running(job), *figures

    def _running(self, job: JobSummary) -> str:
        try:
            tasks = [task for task in self._connection.tasks(job.job).tasks if task.expected]
        except RetryableError:
            return "unknown"
        return f"{sum(task.state == 'running' for task in tasks)}/{len(tasks)}"
